"""Packs a plan and its workspace into one compressed stream, with everything that is needed to apply the plan at the same path."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import msgspec
import zstandard

from terracrew.attempt.engine_directory import json_beside, open_produced
from terracrew.errors import Invalid, TooLarge
from terracrew.source_rules.unpacking import Unpacking

_ABOUT, _PLAN, _PLAN_JSON, _WORKSPACE = "about.json", "plan", "plan.json", "workspace/"
_READ_BYTES = 1 << 18
_COMPRESSION_LEVEL = 3
_MAX_ABOUT_BYTES = 1 << 16
MAX_ENTRIES = 1_000_000
MAX_BYTES = 16 << 30
"""What a workspace may have. A file with holes has its whole size here, and takes it on the disk when it is restored."""


class PlanOrigin(msgspec.Struct, frozen=True):
    """The engine, its version and the platform, which must be the same when the plan is applied."""

    engine: str
    version: str
    platform: str


def pack(out: io.RawIOBase, about: PlanOrigin, plan: Path, workspace: Path) -> None:
    """Write the plan, its JSON for hooks if there is one beside it, and the workspace to a stream. Links stay links, so packages from
    a cache are not included."""
    with (
        zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).stream_writer(
            cast("IO[bytes]", out), closefd=False
        ) as packed,
        tarfile.open(fileobj=cast("IO[bytes]", packed), mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add_bytes(tar, _ABOUT, msgspec.json.encode(about))
        _add(tar, _PLAN, plan)
        if (shown := json_beside(plan)).exists():
            _add(tar, _PLAN_JSON, shown)
        size = 0
        for count, (name, path) in enumerate(_walk(workspace, _WORKSPACE)):
            size += _add(tar, name, path)
            if count >= MAX_ENTRIES or size > MAX_BYTES:
                raise TooLarge(
                    f"the workspace has more than {MAX_ENTRIES:,} files or {MAX_BYTES >> 30} GiB, which are not saved with a plan"
                )


def unpack(source: IO[bytes], plan: Path, workspace: Path) -> PlanOrigin:
    """Write the plan to this path, its JSON beside it, and the workspace into this empty directory. Nothing is written elsewhere."""
    about: PlanOrigin | None = None
    with Unpacking(workspace, max_entries=MAX_ENTRIES, max_bytes=MAX_BYTES, is_source=False) as unpacking:
        try:
            with (
                zstandard.ZstdDecompressor().stream_reader(source, closefd=False) as packed,
                tarfile.open(fileobj=cast("IO[bytes]", packed), mode="r|") as tar,
            ):
                for info in tar:
                    if info.name == _ABOUT:
                        about = msgspec.json.decode(_content(tar, info).read(_MAX_ABOUT_BYTES), type=PlanOrigin)
                    elif info.name == _PLAN:
                        _write_plan(_content(tar, info), plan)
                    elif info.name == _PLAN_JSON:
                        _write_plan(_content(tar, info), json_beside(plan))
                    elif info.issym():
                        unpacking.link(_inside(info.name), info.linkname)
                    elif info.isdir():
                        unpacking.folder(_inside(info.name), info.mode)
                    else:
                        unpacking.file(_inside(info.name), _content(tar, info), info.mode)
        except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
            raise Invalid(f"the saved plan is damaged: {error}") from error
        if about is None or not plan.is_file():
            raise Invalid("the saved file is not a plan with its workspace")
        unpacking.finish()
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


def _add(tar: tarfile.TarFile, name: str, path: Path) -> int:
    """Add an entry, and return how many bytes of content it has."""
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
    return info.size


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    if not info.isreg() or info.issparse() or (file := tar.extractfile(info)) is None:
        raise Invalid(f"{info.name!r} is not a plain file")
    return file


def _inside(name: str) -> str:
    """Return the path of an entry in the workspace."""
    path = name.removeprefix(_WORKSPACE)
    if path == name or not path:
        raise Invalid(f"{name!r} is not in the workspace")
    return path


def _write_plan(source: IO[bytes], to: Path) -> None:
    with open(to, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as out:
        while chunk := source.read(_READ_BYTES):
            out.write(chunk)
