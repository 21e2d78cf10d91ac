"""What a module can write, read by its executor: never more of it than has a use, whatever size the file has."""

from collections.abc import Callable
from pathlib import Path

import pytest

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import TooLarge
from terracrew.executor.engines.hcl import blocks, dialect, kept_init, lockfile
from terracrew.executor.engines.hcl.dialect import TOFU
from terracrew.executor.engines.pulumi import preview, project

pytestmark = pytest.mark.feature("X4.bounded")
HUGE_BYTES = 1 << 40
"""More than any machine that runs tests has of memory. A file with holes of this size takes no space on the disk."""
PATTERNS = ("*.tf",)


def sparse(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(HUGE_BYTES)
    return path


READERS: list[tuple[str, Callable[[Path], object]]] = [
    ("main.tf", lambda path: list(blocks.backend_blocks(path.parent, PATTERNS))),
    ("main.tf", lambda path: blocks.declared_variables(path.parent, PATTERNS)),
    ("events", preview.facts),
    ("events", lambda path: preview.description(path, is_destroying=False)),
    ("Pulumi.yaml", project.read),
    (lockfile.NAME, lambda path: lockfile.content(path.parent)),
    (".tofurc", lambda path: kept_init.configurations(TOFU, {"HOME": str(path.parent)})),
    ("any", lambda path: read_produced(path, 1 << 20)),
]


@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_huge_file_of_a_module_is_refused_by_its_name(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    """A sparse `.terraform.lock.hcl` of 1.5 GB made the executor take 1.5 GB, whatever the memory limit of the job was."""
    with pytest.raises(TooLarge, match=rf"{name} has more than [0-9,]+ bytes, so it is not read"):
        read(sparse(tmp_path / name))


def test_a_huge_lock_file_names_no_provider(tmp_path: Path) -> None:
    sparse(tmp_path / lockfile.NAME)
    assert lockfile.read(tmp_path) == []


def test_a_huge_configuration_in_a_home_opens_no_paths(tmp_path: Path) -> None:
    sparse(tmp_path / ".tofurc")
    assert str(tmp_path / ".tofurc") in dialect.find_operator_paths(TOFU, {"HOME": str(tmp_path)})


def test_a_file_as_large_as_allowed_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert read_produced(tmp_path / "file", 1000) == b"x" * 1000
    with pytest.raises(TooLarge):
        read_produced(tmp_path / "file", 999)
