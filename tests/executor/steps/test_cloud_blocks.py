"""Sources that name the server as their `cloud`, because people also run them from their own command line."""

import json

import pytest

from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE

pytestmark = pytest.mark.engine

CLOUD = """terraform {
  cloud {
    HOSTNAME
    organization = "acme"
    workspaces { name = "platform.network" }
  }
}
"""


@pytest.mark.feature("J15.own")
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cloud.tf", CLOUD),
        ("cloud.tf", CLOUD.replace("cloud {", 'backend "remote" {')),
        ("cloud.tf.json", '{"terraform": {"cloud": {"hostname": "a.b", "organization": "acme"}}}'),
        ("cloud_override.tf", CLOUD.replace("HOSTNAME", 'hostname = "a.b"')),
    ],
)
async def test_a_source_that_its_sender_runs_through_the_server_is_applied_with_the_servers_state(
    hub: FakeExecutorHub, executors: ExecutorProcesses, file: str, text: str
) -> None:
    """OTF refused uploads of its own clients: a `cloud` block tells the engine to ask a server, and not to run (otf#154)."""
    (folder := executors.folder / "source").mkdir()
    (folder / file).write_text(text.replace("HOSTNAME", ""))
    source = module(folder, main=SMALL_MODULE)
    spec = executors.spec(JobType.APPLY, source, has_own_source=True)
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert json.loads(hub.states[-1][2])["outputs"]["it"]["value"] == "made"


@pytest.mark.feature("J15.own")
async def test_a_modules_source_may_name_the_server_as_its_cloud(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    ours = module(
        executors.folder / "ours",
        main=SMALL_MODULE,
        cloud=CLOUD.replace("HOSTNAME", f'hostname = "{hub.url.removeprefix("http://")}"'),
    )
    executor = await executors.run(executors.spec(JobType.PLAN, ours))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result


@pytest.mark.feature("J15.own")
async def test_a_source_cannot_make_the_engine_pass_over_the_servers_state(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A file terracrew_override.tofu hid the file that names the backend. The state stayed in the workspace and was lost."""
    (folder := executors.folder / "source").mkdir()
    (folder / "terracrew_override.tofu").write_text("locals {}\n")
    source = module(folder, main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.APPLY, source))
    assert await executor.exit_code() == 0, executor.said
    assert "the source has a file terracrew_override.tofu" in hub.result.message
    assert hub.begins == []
