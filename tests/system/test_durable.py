"""Drafts are made anew: nothing that another process put at their name is used."""

import os
from pathlib import Path

import pytest

from terracrew.system import durable


@pytest.mark.feature("X4.isolation")
def test_a_link_at_the_name_of_a_draft_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """A job put a link where the runner writes its drafts, and the runner overwrote the file that the link led to."""
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / f"pid.{os.getpid()}.new").symlink_to(other)
    durable.write(tmp_path / "pid", b"new")
    assert other.read_text() == "kept"
    assert (tmp_path / "pid").read_bytes() == b"new"
    assert not (tmp_path / "pid").is_symlink()


def test_a_file_is_overwritten_as_a_whole_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"longer than before")
    durable.overwrite(tmp_path / "new", b"state")
    assert (tmp_path / "new").read_bytes() == b"state"
    (tmp_path / "elsewhere").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="link"):
        durable.overwrite(tmp_path / "link", b"state")
    assert (tmp_path / "elsewhere").read_bytes() == b"kept"
