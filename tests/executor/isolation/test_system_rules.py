"""The rules for the system's paths allow everything in them but the secrets and the runner's own files."""

from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock, rules
from terracrew.executor.isolation.landlock import Ruleset

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system whose configuration has a secret in it."""
    system = tmp_path.resolve() / "etc"
    for name in ("hosts", "shadow", "ssl/certs", "tool/private/key"):
        (system / name).parent.mkdir(parents=True, exist_ok=True)
        (system / name).write_text(name)
    monkeypatch.setattr(rules, "SYSTEM_PATHS", (str(system), str(tmp_path / "absent")))
    monkeypatch.setattr(rules, "SECRET_SYSTEM_PATHS", (str(system / "shadow"), str(system / "gshadow")))
    return system


def is_readable(ruleset: Ruleset, path: Path) -> bool:
    def read() -> str:
        try:
            return path.read_text()
        except PermissionError:
            return "denied"

    return ruleset.run(read) != "denied"


def test_everything_but_a_secret_can_be_read(system: Path) -> None:
    found = rules.system_ruleset(["/elsewhere"])
    assert is_readable(found, system / "hosts")
    assert is_readable(found, system / "ssl" / "certs")
    assert not is_readable(found, system / "shadow")
    found.close()


@pytest.mark.parametrize("private", ["tool/private", ".", ".."])
def test_the_runners_own_files_are_left_out(system: Path, private: str) -> None:
    found = rules.system_ruleset([str((system / private).resolve())])
    assert not is_readable(found, system / "tool" / "private" / "key")
    found.close()
