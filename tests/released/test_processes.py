"""Runners and executors of released versions work with a server of this one (ADR 0085)."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import modules
from tests.e2e.other_versions import environment_from
from tests.e2e.system import System, eventually, running
from tests.released import kept

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with running(tmp_path) as found:
        yield found


@pytest.mark.parametrize("version", kept.versions())
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
