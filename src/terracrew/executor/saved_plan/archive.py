"""Packs a plan and its workspace into one compressed stream, with everything that is needed to apply the plan at the same path."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import msgspec

from terracrew.attempt.engine_directory import open_produced
from terracrew.errors import Invalid

_ABOUT, _PLAN, _WORKSPACE = "about.json", "plan", "workspace/"
_READ_BYTES = 1 << 18
_COMPRESSION_LEVEL = 3


class About(msgspec.Struct, frozen=True):
    """The engine, its version and the platform, which must be the same when the plan is applied."""

    engine: str
    version: str
    platform: str


def pack(out: io.RawIOBase, about: About, plan: Path, workspace: Path) -> None:
    """Write the plan and the workspace to a stream. Links stay links, so packages from a cache are not included."""
    import zstandard  # see `transfer`: few jobs need it

    with (
        zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).stream_writer(
            cast("IO[bytes]", out), closefd=False
        ) as packed,
        tarfile.open(fileobj=cast("IO[bytes]", packed), mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add_bytes(tar, _ABOUT, msgspec.json.encode(about))
        _add(tar, _PLAN, plan)
        links: list[tuple[str, Path]] = []
        for name, path in _walk(workspace, _WORKSPACE):
            if path.is_symlink():
                links.append((name, path))
            else:
                _add(tar, name, path)
        for name, path in links:  # last, so that nothing is ever written through one
            _add(tar, name, path)


def unpack(source: IO[bytes], plan: Path, workspace: Path) -> About:
    """Write the plan to this path and the workspace into this empty directory. Nothing is written outside of them."""
    import zstandard

    about: About | None = None
    modes: list[tuple[Path, int]] = []
    try:
        with (
            zstandard.ZstdDecompressor().stream_reader(source, closefd=False) as packed,
            tarfile.open(fileobj=cast("IO[bytes]", packed), mode="r|") as tar,
        ):
            has_links = False
            for info in tar:
                if info.name == _ABOUT:
                    about = msgspec.json.decode(_content(tar, info).read(), type=About)
                elif info.name == _PLAN:
                    _write(_content(tar, info), plan, 0o600)
                elif has_links and not info.issym():
                    raise Invalid(f"{info.name!r} comes after a link")
                elif info.issym():
                    has_links = True
                    _inside(workspace, info.name).symlink_to(info.linkname)
                elif info.isdir():
                    path = _inside(workspace, info.name)
                    path.mkdir(mode=0o700)
                    modes.append((path, info.mode))
                else:
                    _write(_content(tar, info), _inside(workspace, info.name), info.mode)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise Invalid(f"the saved plan is damaged: {error}") from error
    if about is None or not plan.is_file():
        raise Invalid("the saved file is not a plan with its workspace")
    for path, mode in reversed(modes):
        path.chmod(mode)
    return about


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Yield every directory, file and link. Sockets, pipes and devices are left out, because they are useless elsewhere."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        is_directory = entry.is_dir(follow_symlinks=False)
        if is_directory or entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield prefix + entry.name, Path(entry.path)
        if is_directory:
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    info = tarfile.TarInfo(name)
    found = path.lstat()
    info.mode, info.mtime = found.st_mode & 0o777, found.st_mtime
    if path.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        tar.addfile(info)
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    else:
        with open_produced(path) as file:  # the module may still run, and put something else there
            info.size = os.fstat(file.fileno()).st_size
            tar.addfile(info, file)


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    if not info.isreg() or (file := tar.extractfile(info)) is None:
        raise Invalid(f"{info.name!r} is not a plain file")
    return file


def _inside(workspace: Path, name: str) -> Path:
    path = name.removeprefix(_WORKSPACE)
    if path == name or not path or path.startswith("/") or ".." in path.split("/"):
        raise Invalid(f"{name!r} is not in the workspace")
    return workspace / path


def _write(source: IO[bytes], to: Path, mode: int) -> None:
    with open(to, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, mode)) as out:
        while chunk := source.read(_READ_BYTES):
            out.write(chunk)
        os.fchmod(out.fileno(), mode)
