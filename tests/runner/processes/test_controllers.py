"""The kernel enforces limits of memory and processes where the cgroup of the runner has the controllers for them."""

from pathlib import Path

import pytest

from terracrew.protocol.spec import JobLimits
from terracrew.runner.processes import cgroups
from terracrew.runner.processes.cgroups import Cgroups

pytestmark = pytest.mark.feature("J10.memory")


def test_the_limits_of_an_attempt_are_written_to_its_cgroup(tmp_path: Path) -> None:
    for name in ("memory.high", "memory.max", "memory.swap.max", "pids.max"):
        (tmp_path / name).write_text("")
    cgroups.set_limits(tmp_path, JobLimits(memory_mb=1000, processes=100))
    executor = cgroups.EXECUTOR_MEGABYTES << 20
    assert (tmp_path / "memory.high").read_text() == str((900 << 20) + executor)
    assert (tmp_path / "memory.max").read_text() == str((1000 << 20) + executor)
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    assert (tmp_path / "pids.max").read_text() == str(100 + cgroups.EXECUTOR_TASKS)


def test_without_controllers_nothing_is_written(tmp_path: Path) -> None:
    cgroups.set_limits(tmp_path, JobLimits(memory_mb=1000, processes=100))
    assert list(tmp_path.iterdir()) == []
    made = Cgroups(tmp_path / "runner")
    assert made.controllers == frozenset()
    assert list(made.make("job.1", JobLimits(memory_mb=1000)).iterdir()) == []
