"""A plan that one attempt keeps and another goes on with: the module, both attempts, and where each runs."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import Credentials, JobType, Resume, StateSeed
from terracrew.source_rules import archive
from terracrew.testing.executor_processes import Executor, ExecutorProcesses
from terracrew.testing.fake_executor_hub import HUB, KEY, FakeExecutorHub

SECOND = Credentials("hub-credential-of-the-second", "api-credential-of-the-second", bytes(range(32, 64)))
MAIN = """
variable "name" { type = string }
module "child" {
  source = "./child"
  name = var.name
}
resource "terraform_data" "here" { input = "${path.cwd} ${trimspace(file("${path.module}/greeting.txt"))}" }
resource "terraform_data" "after" {
  input = module.child.name
  provisioner "local-exec" { command = "cat ${path.module}/greeting.txt; pwd" }
}
output "here" { value = terraform_data.here.output }
output "child" { value = module.child.name }
"""
CHILD = """
variable "name" { type = string }
resource "terraform_data" "named" { input = "${var.name} in ${path.module}" }
output "name" { value = terraform_data.named.output }
"""


@pytest.fixture
def source(tmp_path: Path) -> bytes:
    folder = tmp_path / "source"
    (folder / "infra" / "child").mkdir(parents=True)
    (folder / "infra" / "main.tf").write_text(MAIN)
    (folder / "infra" / "greeting.txt").write_text("hello from a file\n")
    (folder / "infra" / "child" / "main.tf").write_text(CHILD)
    (folder / "infra" / ".terraform.lock.hcl").write_text("# a lock file of the module's own\n")
    return archive.pack(folder)


@asynccontextmanager
async def another_instance(folder: Path, credential: str = HUB) -> AsyncGenerator[ExecutorProcesses]:
    """Executors of another instance, on a server of their own where every plan needs an approval."""
    hub = FakeExecutorHub(credential)
    hub.needs_approval = True
    await hub.start()
    folder.mkdir()
    other = ExecutorProcesses(hub, folder)
    try:
        yield other
    finally:
        await other.close()
        await hub.stop()


@pytest.fixture
async def second(tmp_path: Path, executors: ExecutorProcesses) -> AsyncIterator[ExecutorProcesses]:
    """Where the plan is applied: another process of another instance, with another port and another secret."""
    async with another_instance(tmp_path / "second", SECOND.hub) as other:
        other.workspaces = executors.workspaces
        yield other


def spec_of(executors: ExecutorProcesses, source: bytes, **changes: Any) -> Any:
    spec = executors.spec(JobType.APPLY, source, inputs={"name": "you"}, **changes)
    return msgspec.structs.replace(spec, source=msgspec.structs.replace(spec.source, subdirectory="infra"))


async def planned(hub: FakeExecutorHub, executors: ExecutorProcesses, source: bytes, **changes: Any) -> Executor:
    """The first attempt, to where its plan is kept."""
    hub.needs_approval = True
    executor = await executors.run(spec_of(executors, source, **changes))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "WAITING", hub.result
    return executor


def resume_of(hub: FakeExecutorHub, **changes: Any) -> Resume:
    kept = hub.result.kept
    assert kept is not None
    resume = Resume(1, kept.state_version, kept.sha256, kept.size, kept.path, KEY, kept.plan_sha256, "job_1", 1)
    changes = {"made_attempt": changes.get("attempt") or 1} | changes
    return msgspec.structs.replace(resume, **changes)


async def resumed(
    hub: FakeExecutorHub, second: ExecutorProcesses, source: bytes, resume: Resume, **changes: Any
) -> Executor:
    second.hub.plan = second.hub.plan or hub.plan
    state = changes.pop("state", StateSeed(resume.state_version))
    spec = spec_of(second, source, attempt=2, resume=resume, state=state)
    return await second.run(spec, granted=Granted(spec, SECOND), **changes)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
