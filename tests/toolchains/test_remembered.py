"""Versions of engines that an image remembers."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.toolchains import discovery, remembered, specs


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    yield
    remembered.forget()


def program(folder: Path) -> Path:
    """Make a program that the kernel runs, and that answers nothing that looks like a version."""
    folder.mkdir()
    return Path(shutil.copy2("/bin/true", folder / "tofu"))


def test_a_program_that_is_remembered_is_not_started(tmp_path: Path) -> None:
    path = program(tmp_path / "bin")
    assert discovery.ask_version(specs.TOFU, path) is None
    remembered.write({str(path): "1.2.3"}, tmp_path / "share" / "versions.json")
    assert discovery.ask_version(specs.TOFU, path) is None
    remembered.recall(tmp_path / "share" / "versions.json")
    assert discovery.ask_version(specs.TOFU, path) == "1.2.3"


@pytest.mark.parametrize("change", ["first", "last", "size", "time"])
def test_another_program_at_the_same_place_is_asked(tmp_path: Path, change: str) -> None:
    path = program(tmp_path / "bin")
    remembered.write({str(path): "1.2.3"}, tmp_path / "versions.json")
    remembered.recall(tmp_path / "versions.json")
    stat, content = path.stat(), bytearray(path.read_bytes())
    if change == "size":
        content += b"\0"
    elif change != "time":
        content[100 if change == "first" else -1] ^= 1
    path.write_bytes(content)
    seconds = stat.st_mtime + (1 if change == "time" else 0)
    os.utime(path, (seconds, seconds))
    assert remembered.version(path) is None


def test_the_version_of_a_script_is_not_remembered(tmp_path: Path) -> None:
    """A version switcher is a script that looks at the environment each time."""
    script = tmp_path / "tofu"
    script.write_text("#!/bin/sh\necho 'v1.0.0'\n")
    remembered.write({str(script): "1.0.0"}, tmp_path / "versions.json")
    assert (tmp_path / "versions.json").read_text() == "{}"


def test_an_image_that_remembers_nothing_is_asked(tmp_path: Path) -> None:
    remembered.recall(tmp_path / "missing.json")
    assert remembered.version(program(tmp_path / "bin")) is None
