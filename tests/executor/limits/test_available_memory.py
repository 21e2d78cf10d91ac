"""An attempt counts on its own limit, and on its share of the memory of the cgroup or of the machine."""

from pathlib import Path

import pytest

from terracrew.executor.limits import usage
from terracrew.protocol.spec import JobLimits
from terracrew.runner.processes import cgroups

pytestmark = pytest.mark.feature("J10.collector")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 16,000 MB whose cgroups and own cgroup a test chooses."""
    (tmp_path / "meminfo").write_text(f"MemTotal:       {16_000 << 10} kB\nMemFree:        1 kB\n")
    monkeypatch.setattr(usage, "MEMORY_INFO", tmp_path / "meminfo")
    monkeypatch.setattr(usage, "OWN_CGROUP", tmp_path / "own")
    monkeypatch.setattr(usage, "CGROUP_ROOT", tmp_path / "cgroup")
    return tmp_path


def limit(machine: Path, path: str, text: str, name: str = "memory.max") -> None:
    folder = machine / "cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"{text}\n")


def test_slots_share_the_memory_of_the_machine(machine: Path) -> None:
    assert usage.share_mb(None, 4) == 4000
    assert usage.share_mb(1000, 4) == 1000
    assert usage.share_mb(5000, 4) == 4000


def test_a_cgroup_above_has_less_than_the_machine(machine: Path) -> None:
    (machine / "own").write_text("0::/service/runner/attempt\n")
    limit(machine, "service", str(2000 << 20))
    limit(machine, "service/runner", "max")
    assert usage.share_mb(None, 4) == 500


def test_no_other_attempt_shares_the_cgroup_of_an_attempt(machine: Path) -> None:
    """The runner adds some room for the executor to the limit of the cgroup."""
    (machine / "own").write_text("0::/service/runner/attempt\n")
    limit(machine, "service/runner/attempt", "max")
    own = machine / "cgroup/service/runner/attempt"
    cgroups.set_limits(own, JobLimits(memory_mb=1000))
    assert (own / "memory.max").read_text().strip() != "max"
    assert usage.share_mb(1000, 10, own) == 1000
    limit(machine, "service", str(5000 << 20))
    assert usage.share_mb(1000, 10, own) == 500


def test_a_container_has_a_limit_of_its_own(machine: Path) -> None:
    (machine / "own").write_text("0::/\n")
    limit(machine, "", str(1000 << 20))
    assert usage.share_mb(None, 1) == 1000


def test_cgroups_of_version_1_have_limits_too(machine: Path) -> None:
    (machine / "own").write_text("5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n")
    limit(machine, "memory/a", str(3000 << 20), "memory.limit_in_bytes")
    limit(machine, "memory/a/b", str((1 << 63) - 4096), "memory.limit_in_bytes")
    assert usage.share_mb(None, 2) == 1500


def test_without_any_knowledge_there_is_no_share(machine: Path) -> None:
    (machine / "meminfo").unlink()
    assert usage.share_mb(None, 2) is None
    assert usage.share_mb(100, 2) == 100


def test_the_real_machine_has_memory() -> None:
    found = usage.share_mb(None, 1)
    assert found is not None
    assert found > 100
