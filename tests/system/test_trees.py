"""Trees of any depth and with any permissions are removed, and nothing beside them."""

import os
from pathlib import Path

import pytest

from terracrew.runner.processes import cgroups
from terracrew.system import trees
from tests.machine import cgroup

DEPTH = 1_100


def dig(top: Path, name: str, depth: int = DEPTH) -> None:
    """Make directories inside one another; the path of the deepest may be too long for any system call."""
    current = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=current)
        deeper = os.open(name, os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = deeper
    os.close(current)


@pytest.mark.feature("X4.bounded")
@pytest.mark.parametrize("name", ["d", "d" * 200])
def test_a_tree_of_more_than_a_thousand_levels_is_removed(tmp_path: Path, name: str) -> None:
    """A job made 1,100 directories inside one another: RecursionError, and the runner tried to remove them for ever."""
    root = tmp_path / "workspace"
    root.mkdir()
    dig(root, name)
    (root / "file").write_text("")
    trees.remove(root)
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_and_read_only_directories(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("kept")
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (root / "inside" / "link").symlink_to(other)
    (root / "inside" / "file").write_text("")
    (root / "inside").chmod(0o500)
    root.chmod(0o500)
    trees.remove(root)
    assert not root.exists()
    assert (other / "file").read_text() == "kept"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_files_and_directories_of_every_level_are_removed(tmp_path: Path, count: int) -> None:
    root, beside = tmp_path / "root", tmp_path / "beside"
    beside.write_text("kept")
    folders = [root] + [root / f"{one}" / f"{two}" for one in range(count) for two in range(count)]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / f"file-{number}").write_text("")
            (folder / f"link-{number}").symlink_to(beside)
    trees.remove(root)
    assert list(tmp_path.iterdir()) == [beside]
    assert beside.read_text() == "kept"


def test_what_does_not_exist_cannot_be_removed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trees.remove(tmp_path / "nothing")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        with pytest.raises(OSError, match="irectory"):
            trees.remove(tmp_path / name)
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.feature("X4.isolation")
def test_a_directory_that_is_moved_meanwhile_ends_the_walk(tmp_path: Path) -> None:
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    walk = trees.below(tmp_path / "root")
    next(walk)
    (tmp_path / "root" / "a").rename(tmp_path / "elsewhere" / "a")
    with pytest.raises(OSError, match="was moved"):
        list(walk)


@pytest.mark.feature("X4.isolation")
def test_cgroups_that_a_job_made_inside_its_own_are_read_and_removed_at_any_depth() -> None:
    """A job made 1,100 cgroups inside its own: RecursionError, and no runner could start on that host until a reboot."""
    parent = str(cgroup.parent())
    own = cgroups.find_cgroups(parent, "deep")
    try:
        dig(own.make("job_1.1"), "c")
        assert cgroups.processes(str(own.root / "job_1.1")) == set()
        assert cgroups.find_cgroups(parent, "deep").root == own.root
        assert not (own.root / "job_1.1").exists()
    finally:
        own.close()
