"""Rewrites an image that `docker save` wrote so that the time of its build is not part of it.

The layers get no times later than the one that is given, and the configuration loses what names the machine and the steps of the
build. Two builds whose files are the same then have the same id: the hash of the configuration, which has the hash of each layer.
BuildKit can do this for layers itself (`rewrite-timestamp`), but not every Docker has it.
"""

import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

_OF_THE_BUILD = ("container", "container_config", "docker_version", "id", "parent", "moby.buildkit.buildinfo.v1")
_COPIED = re.compile(r"\b(dir|file|multi):[0-9a-f]{64}\b")
"""Docker's hash of what a step copies, which covers the times of the files."""
_SOURCES_OF_DEBIAN = re.compile(r"(?:usr/lib|etc)/python3[^/]*/.*\.py")
"""Their packages say their times, and compiled modules beside them name these times. A package can be newer than the commit."""
_COPY_BYTES = 2**20


def rewrite(source: Path, target: Path, epoch: int) -> str:
    """Write the archive of an image without the times of its build, for `docker load`, and return the id of the image."""
    with tarfile.open(source) as archive, tarfile.open(target, "w") as made:
        (image,) = json.loads(_read(archive, "manifest.json"))
        config = json.loads(_read(archive, image["Config"]))
        digests: list[str] = []
        for layer in image["Layers"]:
            with tempfile.TemporaryFile(dir=target.parent) as file:
                _rewrite_layer(archive, layer, file, epoch)
                digests.append(_digest(file))
                _add(made, f"{digests[-1]}.tar", file)
        text = json.dumps(_without_build(config, digests, epoch), sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(text).hexdigest()
        layers = [f"{each}.tar" for each in digests]
        manifest = [{"Config": f"{digest}.json", "RepoTags": image["RepoTags"], "Layers": layers}]
        _add(made, f"{digest}.json", io.BytesIO(text))
        _add(made, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))
    return f"sha256:{digest}"


def _without_build(config: dict[str, Any], digests: list[str], epoch: int) -> dict[str, Any]:
    when = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {name: value for name, value in config.items() if name not in _OF_THE_BUILD}
    kept["created"] = when
    kept["config"] = {name: value for name, value in config["config"].items() if name not in ("Hostname", "Image")}
    kept["history"] = [
        {**each, "created": when, "created_by": _COPIED.sub(r"\1", each.get("created_by", ""))}
        for each in config.get("history", [])
    ]
    kept["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{each}" for each in digests]}
    return kept


def _rewrite_layer(archive: tarfile.TarFile, name: str, target: IO[bytes], epoch: int) -> None:
    """Write a layer without later times. One that has none, such as those of the base, keeps its bytes, so that images share it."""
    is_later = False
    with (
        tarfile.open(fileobj=_opened(archive, name), mode="r|*") as layer,
        tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        for member in layer:
            if member.mtime > epoch and not _SOURCES_OF_DEBIAN.fullmatch(member.name):
                is_later = True
                member.mtime = epoch
            member.mtime = int(member.mtime)
            member.pax_headers = {
                key: value for key, value in member.pax_headers.items() if key not in ("mtime", "atime", "ctime")
            }
            made.addfile(member, layer.extractfile(member) if member.isreg() else None)
    if not is_later:
        target.seek(0)
        target.truncate()
        source = _opened(archive, name)
        is_compressed = source.read(2) == b"\x1f\x8b"
        source.seek(0)
        shutil.copyfileobj(gzip.GzipFile(fileobj=source) if is_compressed else source, target, _COPY_BYTES)


def _opened(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    opened = archive.extractfile(name)
    assert opened is not None
    return opened


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    return _opened(archive, name).read()


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(_COPY_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _add(made: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    made.addfile(member, content)
