"""Serves the static files. Their addresses contain one hash of all files, so that a browser can cache them forever."""

import gzip
import mimetypes
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath

from terracrew.errors import NotFound
from terracrew.server.http import streams

_TYPES = {".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2"}
_FOR_EVER = "public, max-age=31536000, immutable"


class Asset(msgspec.Struct, frozen=True):
    media_type: str
    content: bytes
    zipped: bytes | None


class Assets(msgspec.Struct, frozen=True):
    digest: str
    files: dict[str, Asset]


@cache
def load() -> Assets:
    """Read all files into memory: a few hundred kilobytes, once."""
    found = dict(sorted(_walk(files("terracrew.server.dashboard") / "static", "")))
    digest = sha256()
    for path, asset in found.items():
        digest.update(f"{path} {len(asset.content)} ".encode() + asset.content)
    return Assets(digest.hexdigest()[:16], found)


def url(path: str) -> str:
    """Return the address of a file. A template that names a file that does not exist fails at once.

    One hash for all of them keeps relative addresses between them working (imports, fonts).
    """
    assets = load()
    if path not in assets.files:
        raise KeyError(f"there is no static file {path}")
    return f"/static/{assets.digest}/{path}"


@get("/static/{digest:str}/{path:path}", include_in_schema=False, public=True)
async def serve(request: Request[object, object, State], digest: FromPath[str], path: FromPath[str]) -> Response[bytes]:
    assets = load()
    asset = assets.files.get(path.lstrip("/"))
    if asset is None:
        raise NotFound(f"there is no file {path}")
    # A page of another version of the server asks with its own hash. It gets this file, but must not cache it.
    headers = {"Cache-Control": _FOR_EVER if digest == assets.digest else "no-store"}
    if asset.zipped is not None:
        headers |= streams.VARY
        if streams.is_gzip_accepted(request.headers):
            headers |= streams.GZIP_HEADERS
            return Response(asset.zipped, media_type=asset.media_type, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, _read(entry)))
    return found


def _read(file: Traversable) -> Asset:
    content = file.read_bytes()
    ending = "." + file.name.rpartition(".")[2]
    media_type = _TYPES.get(ending) or mimetypes.guess_type(file.name)[0] or "text/plain"
    return Asset(media_type, content, None if ending == ".woff2" else gzip.compress(content, 6, mtime=0))
