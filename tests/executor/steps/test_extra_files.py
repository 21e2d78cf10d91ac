"""Extra files are written into the workspace, and nowhere else."""

import os
import stat
from pathlib import Path

import pytest

from terracrew.errors import Conflict, Invalid
from terracrew.executor.steps import extra_files
from terracrew.protocol.spec import ExtraFile


@pytest.mark.feature("J6.files")
def test_a_file_of_the_source_is_kept_unless_the_extra_file_may_overwrite_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("of the source")
    with pytest.raises(Conflict, match=r"the source has a file a\.txt already"):
        extra_files.write(tmp_path, [ExtraFile("a.txt", "mine")], [])
    assert (tmp_path / "a.txt").read_text() == "of the source"
    assert extra_files.write(tmp_path, [ExtraFile("a.txt", "mine", is_overwriting=True)], []) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o600


@pytest.mark.feature("J6.files")
def test_a_file_that_shares_its_content_with_a_cache_is_replaced_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "cached").write_text("shared")
    (tmp_path / "workspace").mkdir()
    os.link(tmp_path / "cached", tmp_path / "workspace" / "a")
    extra_files.write(tmp_path / "workspace", [ExtraFile("a", "mine", is_overwriting=True)], [])
    assert (tmp_path / "cached").read_text() == "shared"


@pytest.mark.feature("J6.files")
@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/passwd", "", ".", "a/./..", "a\0b"])
def test_a_path_that_leads_out_of_the_workspace_is_refused(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    with pytest.raises(Invalid):
        extra_files.write(folder, [ExtraFile(path, "mine", is_overwriting=True)], [])
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.feature("J6.files")
def test_no_link_of_the_source_leads_a_file_elsewhere(tmp_path: Path) -> None:
    folder, outside = tmp_path / "workspace", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "target").write_text("untouched")
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "target")
    with pytest.raises(Conflict, match="link is not a folder of the source"):
        extra_files.write(folder, [ExtraFile("link/target", "mine", is_overwriting=True)], [])
    extra_files.write(folder, [ExtraFile("file", "mine", is_overwriting=True)], [])
    assert not (folder / "file").is_symlink()
    assert (outside / "target").read_text() == "untouched"
    (folder / "folder").mkdir()
    with pytest.raises(Conflict, match="cannot replace a folder"):
        extra_files.write(folder, [ExtraFile("folder", "mine", is_overwriting=True)], [])


@pytest.mark.feature("J6.files")
def test_a_leftover_state_cannot_be_forged(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="has a name that the engine or Terracrew needs"):
        extra_files.write(tmp_path, [ExtraFile("errored.tfstate", "{}")], [tmp_path / "errored.tfstate"])
