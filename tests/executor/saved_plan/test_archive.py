"""A plan with its workspace, packed and put back: the same to an engine, and nothing outside of its place."""

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest
import zstandard

from terracrew.errors import Invalid
from terracrew.executor.saved_plan import archive
from terracrew.executor.saved_plan.archive import PlanOrigin

ABOUT = PlanOrigin("tofu", "1.12.6", "linux_amd64")


class Kept(io.RawIOBase):
    def __init__(self) -> None:
        self.content = b""

    def write(self, data: bytes) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.content += data
        return len(data)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "sub" / "read-only").mkdir(parents=True)
    (folder / "sub" / "read-only" / "file").write_bytes(b"\0content\xff")
    (folder / "sub" / "read-only").chmod(0o500)
    (folder / "script.sh").write_text("#!/bin/sh\n")
    (folder / "script.sh").chmod(0o755)
    (folder / "secret.json").write_text("{}")
    (folder / "secret.json").chmod(0o600)
    (folder / os.fsdecode(b"not-\xff-text")).touch()
    (folder / "inner").symlink_to("sub/read-only/file")
    (folder / "a-provider").symlink_to("/nowhere/plugins/provider")
    os.link(folder / "script.sh", folder / "same.sh")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(folder / "socket"))
    return folder


def described(folder: Path) -> dict[str, tuple[int, bytes]]:
    found: dict[str, tuple[int, bytes]] = {}
    for path in folder.rglob("*"):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = path.lstat().st_mode, content
    return found


def test_a_workspace_comes_back_as_it_was_without_what_is_of_no_use_elsewhere(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "plan").write_bytes(b"the plan")
    archive.pack(kept := Kept(), ABOUT, tmp_path / "plan", workspace)
    back = tmp_path / "back"
    back.mkdir()
    assert archive.unpack(io.BytesIO(kept.content), tmp_path / "plan-back", back) == ABOUT
    expected = described(workspace)
    for name in ("pipe", "socket"):
        del expected[name]
    assert described(back) == expected
    assert (tmp_path / "plan-back").read_bytes() == b"the plan"
    assert (tmp_path / "plan-back").stat().st_mode & 0o777 == 0o600
    assert os.readlink(back / "a-provider") == "/nowhere/plugins/provider"


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_plan_is_not_waited_for(tmp_path: Path) -> None:
    """A hook after the plan can put one there, and nobody writes to it."""
    (tmp_path / "workspace").mkdir()
    os.mkfifo(tmp_path / "plan")
    with pytest.raises(Invalid, match="plan is not a regular file"):
        archive.pack(Kept(), ABOUT, tmp_path / "plan", tmp_path / "workspace")


def test_names_longer_than_a_tar_header_and_deep_folders_survive(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    deep = folder / "/".join(["d" * 60] * 12)
    deep.mkdir(parents=True)
    (deep / ("f" * 200)).write_text("deep")
    (tmp_path / "plan").touch()
    archive.pack(kept := Kept(), ABOUT, tmp_path / "plan", folder)
    (tmp_path / "back").mkdir()
    archive.unpack(io.BytesIO(kept.content), tmp_path / "plan-back", tmp_path / "back")
    assert described(tmp_path / "back") == described(folder)


def forged(*members: tuple[str, bytes, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, kind, target in [("about.json", tarfile.REGTYPE, ""), ("plan", tarfile.REGTYPE, ""), *members]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            content = b'{"engine":"tofu","version":"1","platform":"p"}' if name == "about.json" else b"evil"
            info.size = len(content) if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(content) if info.size else None)
    return zstandard.compress(packed.getvalue())


@pytest.mark.feature("X4.isolation")
@pytest.mark.parametrize(
    "members",
    [
        [("workspace/../../evil", tarfile.REGTYPE, "")],
        [("/evil", tarfile.REGTYPE, "")],
        [("evil", tarfile.REGTYPE, "")],
        [("workspace//evil", tarfile.REGTYPE, "")],
        [("workspace/link", tarfile.SYMTYPE, ".."), ("workspace/link/evil", tarfile.REGTYPE, "")],
        [("workspace/pipe", tarfile.FIFOTYPE, "")],
        [("workspace/hard", tarfile.LNKTYPE, "/etc/passwd")],
    ],
)
def test_nothing_is_written_outside_the_workspace(tmp_path: Path, members: list[tuple[str, bytes, str]]) -> None:
    place = tmp_path / "root" / "workspace"
    place.mkdir(parents=True)
    with pytest.raises(Invalid):
        archive.unpack(io.BytesIO(forged(*members)), tmp_path / "plan", place)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("content", [b"", b"neither", zstandard.compress(b""), zstandard.compress(b"x" * 5000)])
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "workspace").mkdir()
    with pytest.raises(Invalid):
        archive.unpack(io.BytesIO(content), tmp_path / "plan", tmp_path / "workspace")
