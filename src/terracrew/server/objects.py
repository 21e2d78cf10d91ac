"""Stores objects in a local folder or a cloud's object store, behind one API. Names consist of ids only."""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from terracrew import durable
from terracrew.errors import Invalid, NotFound, Unavailable
from terracrew.logging import get_logger

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_NAME = re.compile(r"[a-z]+(/[a-z0-9_]+)+\Z")
_KIND = re.compile(r"[a-z]+\Z")
LISTING_PAGE_ROWS = 500
_CHUNK_BYTES = 1 << 20
_MAX_REMEMBERED_FOLDERS = 10_000
NO_WRITES = "the object store takes no writes"
RETRY_AFTER_SECONDS = 2.0
MAX_PROBE_BYTES = 1 << 20
_MAX_REASON_CHARACTERS = 500
_PROBE = "probes/write"
log = get_logger("terracrew.objects")


class Listed(NamedTuple):
    name: str
    size: int
    modified_at: float
    """The time of the store's clock."""


class Objects:
    def __init__(self, store: "ObjectStore", folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        self._durable_folders: set[Path] = set()
        """Folders whose names are known to be on the disk, so that most objects cost no sync of a folder's ancestors."""
        self.refused_writes = 0
        """How often the store has refused to store something."""
        self._refused_bytes: int | None = None
        """The size of the last object that the store refused, if it has accepted none since."""

    async def put(self, name: str, content: bytes | Path) -> None:
        """Store it whole, replacing what had the name; durable when this returns. Raises Unavailable if the store refuses it."""
        from obstore import put_async
        from obstore.exceptions import BaseError

        _checked(name)
        size = _size(content)
        try:
            await put_async(self._store, name, content)
            if self._folder is not None:
                await asyncio.to_thread(self._sync, self._folder, self._folder / name)
        except (BaseError, OSError) as error:
            self.refused_writes += 1
            # Once, not for every object. Only the log has the reason, which may name hosts and paths.
            if self._refused_bytes is None:
                log.warning(NO_WRITES, reason=f"{error}".partition("\n")[0][:_MAX_REASON_CHARACTERS])
            self._refused_bytes = size
            raise Unavailable(NO_WRITES, retry_after=RETRY_AFTER_SECONDS) from error
        if self._refused_bytes is not None and size >= min(self._refused_bytes, MAX_PROBE_BYTES):
            self._refused_bytes = None
            log.warning("the object store takes writes again")

    async def takes_writes(self) -> bool:
        """Return whether the last write was accepted. If it was not, another one of its size is tried, up to a limit."""
        if self._refused_bytes is not None:
            with contextlib.suppress(Unavailable):
                await self.put(_PROBE, bytes(min(self._refused_bytes, MAX_PROBE_BYTES)))
                await self.delete(_PROBE)
        return self._refused_bytes is None

    def _sync(self, root: Path, file: Path) -> None:
        """Make a file, its name and the names of its folders durable: the store itself only renames it into place."""
        durable.sync_file(file)
        durable.sync_directory(file.parent)
        folders = [folder for folder in file.parents if folder.is_relative_to(root) and folder != root]
        for folder in reversed(folders):  # from the top: a folder that is known has ancestors that are known
            if folder not in self._durable_folders:
                durable.sync_directory(folder.parent)
                if len(self._durable_folders) >= _MAX_REMEMBERED_FOLDERS:
                    self._durable_folders.clear()
                self._durable_folders.add(folder)

    async def get(self, name: str) -> bytes:
        from obstore import get_async

        try:
            return bytes(await (await get_async(self._store, _checked(name))).bytes_async())
        except FileNotFoundError:
            raise NotFound(f"no object {name} is stored") from None

    async def get_range(self, name: str, start: int, length: int) -> bytes:
        """That part of it; less, where it ends before."""
        from obstore import get_range_async

        try:
            return bytes(await get_range_async(self._store, _checked(name), start=start, length=length))
        except FileNotFoundError:
            raise NotFound(f"no object {name} is stored") from None

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        """Its content in pieces, for what is too large to hold."""
        from obstore import get_async

        try:
            result = await get_async(self._store, _checked(name))
        except FileNotFoundError:
            raise NotFound(f"no object {name} is stored") from None
        async for chunk in result.stream(min_chunk_size=_CHUNK_BYTES):
            yield bytes(chunk)

    async def delete(self, name: str) -> None:
        """Remove it; nothing happens where there is none."""
        from obstore import delete_async

        try:
            await delete_async(self._store, _checked(name))
        except FileNotFoundError:
            return

    async def names(self, folder: str) -> list[str]:
        """Yield the names of all objects under a folder."""
        import obstore

        pages = obstore.list(self._store, _checked(folder))  # pyright: ignore[reportUnknownMemberType]  (arrow's)
        return [each["path"] async for page in pages for each in page]

    async def listing(self, kind: str) -> AsyncIterator[list[Listed]]:
        """Everything of a kind (the first part of a name), a page at a time."""
        import obstore

        if not _KIND.match(kind):
            raise ValueError(f"{kind!r} is not a kind of object")
        pages = obstore.list(self._store, kind, chunk_size=LISTING_PAGE_ROWS)  # pyright: ignore[reportUnknownMemberType]  (arrow's)
        async for page in pages:
            yield [Listed(each["path"], each["size"], each["last_modified"].timestamp()) for each in page]

    async def remove_empty_folders(self, kind: str, age_seconds: float) -> int:
        """Remove the folders of a kind that have been empty for so long; how many. Other stores have no folders."""
        if self._folder is None or not _KIND.match(kind):
            return 0
        return await asyncio.to_thread(self._remove_empty, self._folder / kind, time.time() - age_seconds)

    def _remove_empty(self, top: Path, before: float) -> int:
        count = 0
        for folder, _, _ in os.walk(top, topdown=False):
            path = Path(folder)
            if path == top:
                continue
            try:
                if path.stat().st_mtime <= before:
                    self._durable_folders.discard(path)  # when it is made again, its name must be synced again
                    path.rmdir()
                    count += 1
            except OSError:
                continue  # it is not empty, or somebody else has removed it
        return count

    async def exists(self, name: str) -> bool:
        return await self.size(name) is not None

    async def size(self, name: str) -> int | None:
        """Return the size of an object in bytes, or None if it does not exist."""
        from obstore import head_async

        try:
            return (await head_async(self._store, _checked(name)))["size"]
        except FileNotFoundError:
            return None


def open_objects(url: str) -> Objects:
    """Open a store by its URL; a local folder is made if it is not there, for its owner alone."""
    from obstore.store import LocalStore, from_url

    parts = urlsplit(url)
    if parts.scheme == "file":
        folder = Path(unquote(parts.path))
        durable.make_directory(folder)
        return Objects(LocalStore(folder), folder)
    try:
        return Objects(from_url(url))
    except Exception as error:  # obstore's own classes differ by store; all of them mean that the setting is wrong
        raise Invalid(f"object_store: {url!r} cannot be opened: {error}") from error


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"{name!r} cannot name an object: names are a kind and ids")
    return name


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
