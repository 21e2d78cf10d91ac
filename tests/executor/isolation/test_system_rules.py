"""Rules that were made before there was a job allow what rules that are made for the job would allow, whatever changed in between."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock, system_rules
from terracrew.executor.isolation.landlock import Ruleset

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")

LONG_AGO_SECONDS = 0.05


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A system whose configuration has a secret in it. Nothing of it has changed for a long time."""
    system = tmp_path.resolve() / "etc"
    for name in ("hosts", "shadow", "ssl/certs", "tool/private/key"):
        (system / name).parent.mkdir(parents=True, exist_ok=True)
        (system / name).write_text(name)
    monkeypatch.setattr(system_rules, "SYSTEM_PATHS", (str(system), str(tmp_path / "absent")))
    monkeypatch.setattr(system_rules, "SECRET_SYSTEM_PATHS", (str(system / "shadow"), str(system / "gshadow")))
    time.sleep(LONG_AGO_SECONDS)
    yield system
    system_rules.ruleset([]).close()  # what a test has prepared and not used


def is_readable(ruleset: Ruleset, path: Path) -> bool:
    def read() -> str:
        try:
            return path.read_text()
        except PermissionError:
            return "denied"

    return ruleset.run(read) != "denied"


def test_they_are_used_if_nothing_has_changed(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_rules.prepare()
    with monkeypatch.context() as prepared:
        prepared.setattr(system_rules, "Ruleset", None)  # another one cannot be made
        found = system_rules.ruleset(["/elsewhere"])
    assert is_readable(found, system / "hosts")
    assert is_readable(found, system / "ssl" / "certs")
    assert not is_readable(found, system / "shadow")
    found.close()
    later = system_rules.ruleset([])
    assert later is not found, "a ruleset belongs to one attempt"
    later.close()


def replace(system: Path) -> None:
    (system / "new").write_text("replaced")
    (system / "new").replace(system / "hosts")


def replace_and_keep_the_time(system: Path) -> None:
    """This is what `rsync -a` does."""
    before = os.stat(system).st_mtime_ns
    replace(system)
    os.utime(system, ns=(0, before))


def replace_the_root(system: Path) -> None:
    system.rename(system.with_name("etc.old"))
    system.mkdir()
    (system / "hosts").write_text("replaced")
    os.utime(system, ns=(0, os.stat(system.with_name("etc.old")).st_mtime_ns))


def touch(system: Path) -> None:
    """The directory had changed so shortly before it was listed that another change would not be noticed."""
    os.utime(system)
    system_rules.prepare()
    replace(system)


@pytest.mark.parametrize("change", [replace, replace_and_keep_the_time, replace_the_root, touch])
def test_a_file_that_was_replaced_since_can_be_read(system: Path, change: Callable[[Path], None]) -> None:
    system_rules.prepare()
    change(system)
    found = system_rules.ruleset([])
    assert is_readable(found, system / "hosts")
    found.close()


def test_what_became_a_secret_since_cannot_be_read(system: Path) -> None:
    (system / "before").write_text("secret")
    time.sleep(LONG_AGO_SECONDS)
    system_rules.prepare()
    (system / "before").rename(system / "gshadow")  # the file has a rule
    found = system_rules.ruleset([])
    assert not is_readable(found, system / "gshadow")
    found.close()


@pytest.mark.parametrize("private", ["tool/private", ".", ".."])
def test_the_runners_own_files_are_left_out(system: Path, private: str) -> None:
    system_rules.prepare()
    found = system_rules.ruleset([str((system / private).resolve())])
    assert not is_readable(found, system / "tool" / "private" / "key")
    found.close()
