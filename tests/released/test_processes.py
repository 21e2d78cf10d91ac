"""Runners and executors work with servers that are at most one minor version older or newer (ADR 0085)."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew import __version__
from tests.e2e import modules
from tests.e2e.constants import environment
from tests.e2e.other_versions import environment_from
from tests.e2e.system import System, eventually, running
from tests.released import kept

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with running(tmp_path) as found:
        yield found


@pytest.mark.parametrize("version", kept.promised())
def test_a_runner_and_an_executor_of_a_released_version_work_with_this_server(
    version: str, system: System, tmp_path: Path
) -> None:
    """The executor finishes its apply after its runner was replaced by one of this version."""
    released = environment_from(kept.wheel_of(version), tmp_path / "unpacked")
    system.start_server(runner=False)
    credentials = system.register_runner()
    witness, gate = tmp_path / "witness", tmp_path / "gate"
    system.module("quick", modules.quick())
    system.module("slow", modules.gated_apply(str(witness), str(gate)))
    runner = system.start_runner(credentials | released)
    job = system.wait(system.run("quick", "APPLY"))
    assert job["status"] == "SUCCEEDED", runner.log.read_text()
    [instance] = system.api.get("/runners/crew")["instances"]
    assert instance["version"] == version
    slow = system.run("slow", "APPLY")
    eventually(lambda: witness.exists() and "begin" in witness.read_text(), what="begin")
    runner.kill(signal.SIGKILL)
    runner = system.start_runner(credentials)
    gate.touch()
    found = system.wait(slow)
    assert (found["status"], found["attempt"]) == ("SUCCEEDED", 1), runner.log.read_text()
    assert "Apply complete" in system.log(slow)
    assert witness.read_text().split() == ["begin", "end"]


@pytest.mark.parametrize("version", kept.promised())
def test_a_runner_and_an_executor_of_this_version_work_with_a_released_server(
    version: str, system: System, tmp_path: Path
) -> None:
    released = environment_from(kept.wheel_of(version), tmp_path / "unpacked")
    system.has_migrated_database = False  # it would be one of this version
    with environment(system, released):
        system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    system.module("quick", modules.quick())
    job = system.wait(system.run("quick", "APPLY"))
    assert job["status"] == "SUCCEEDED", runner.log.read_text()
    [instance] = system.api.get("/runners/crew")["instances"]
    assert instance["version"] == __version__


@pytest.mark.parametrize(
    ("one", "other", "is_promised"),
    [
        ("0.1.0", "0.1.7", True),
        ("0.1.0", "0.2.0-rc.1", True),
        ("0.2.0", "0.1.3", True),
        ("0.1.0", "0.3.0", False),
        ("0.1.0", "1.1.0", False),
    ],
)
def test_versions_that_are_at_most_one_minor_version_apart_are_tested(one: str, other: str, is_promised: bool) -> None:
    assert kept.is_promised(one, other) == is_promised
