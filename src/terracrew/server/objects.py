"""Stores objects in a local folder or a cloud's object store, behind one API. Names consist of ids only.

An error of the store is raised as `Unavailable`, because the same request may succeed later. The log has what the store said.
"""

import asyncio
import contextlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Generator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from terracrew import backoff
from terracrew.errors import Invalid, NotFound, Unavailable
from terracrew.server import object_health
from terracrew.server.object_health import ObjectHealth
from terracrew.system import durable

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

_NAME = re.compile(r"[a-z]+(/[a-z0-9_]+)+\Z")
_KIND = re.compile(r"[a-z]+\Z")
LISTING_PAGE_ROWS = 500
_CHUNK_BYTES = 1 << 20
_MAX_REMEMBERED_FOLDERS = 10_000
WATCH_SECONDS = 10.0
CHECK_SECONDS = 5.0
"""How long a check may take. Other requests have half a minute, because they may be large."""
_PROBES = "probes"
ID_NAME = "store/id"
"""The object that has the id of the store."""
KINDS = ("archives", "logs", "parts", "plans", "releases", "states")
"""The first parts of the names of the objects that databases refer to."""
_RETRIES: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=10)}
"""By default, requests to a store that is away are repeated for up to three minutes, in which nobody gets an answer."""


class Listed(NamedTuple):
    name: str
    size: int
    modified_at: float
    """The time of the store's clock."""


class Objects:
    def __init__(self, store: "ObjectStore", url: str, folder: Path | None = None) -> None:
        self._store, self._url, self._folder = store, url, folder
        self._durable_folders: set[Path] = set()
        """Folders whose names are known to be on the disk, so that most objects cost no sync of a folder's ancestors."""
        self.health = ObjectHealth(url)
        self.id = ""
        """The id that this store must have. Empty: nobody has asked for it, so any store will do."""
        self._probe = f"{_PROBES}/{secrets.token_hex(8)}"
        """The name of the test object. It is always the same one, so that checks that were cut short leave one object and not many."""

    @property
    def place(self) -> str:
        """Where the store is, as people may see it."""
        return object_health.place(self._url)

    async def put(self, name: str, content: bytes | Path) -> None:
        """Store it whole, replacing what had the name; durable when this returns. Raises Unavailable if the store refuses it."""
        from obstore import put_async

        _checked(name)
        size = _size(content)
        with self._reported(size):
            await self._require_mounted(size)
            await put_async(self._store, name, content)
            if self._folder is not None:
                await asyncio.to_thread(self._sync, self._folder, self._folder / name)

    @contextlib.contextmanager
    def _reported(self, size: int | None = None) -> Generator[None]:
        """Note whether a request succeeds. `size` is that of the object which it stores, if it does."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if size is not None or object_health.is_bucket_missing(error):
                raise self.health.failed(error, size) from error
            self.health.answered()
            raise
        except (BaseError, OSError) as error:
            raise self.health.failed(error, size) from error
        if size is None:
            self.health.answered()
        else:
            self.health.stored(size)

    async def _require_same(self, size: int | None = None) -> None:
        """Raise Unavailable if the store does not have its id any more. `size` is that of the object that is to be stored, if one is."""
        if self.id:
            if await self.read_id() != self.id:
                raise self.health.is_not_the_same(size)
            self.health.recognized()

    async def _require_mounted(self, size: int | None = None) -> None:
        """Do not use the folder where the store was while its file system is not mounted.

        It looks like a store without objects, and what is written there is gone when the file system is mounted again.
        """
        if self._folder is not None:
            await self._require_same(size)

    async def _absent(self, name: str) -> NotFound:
        """Return what to raise for an object that does not exist. That is final, so it raises Unavailable if the store is not there."""
        await self._require_same()
        return NotFound(f"no object {name} is stored")

    async def problem(self) -> str:
        """Return what is wrong with the store, after another try if something was."""
        if self.health.problem:
            with contextlib.suppress(Unavailable):
                await self.check()
        return self.health.problem

    async def check(self) -> None:
        """Look whether the store is there. If something was wrong with it, store something of the size that it refused."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._require_same()
                if self.health.problem:
                    await self.put(self._probe, bytes(self.health.probe_bytes))
                    await self.delete(self._probe)
        except TimeoutError as error:
            raise self.health.failed(error, None) from error

    async def watch(self) -> None:
        """Check the store regularly, so that an outage is known before somebody needs it."""
        while True:
            await asyncio.sleep(backoff.jittered(WATCH_SECONDS))
            with contextlib.suppress(Unavailable):
                await self.check()

    async def try_out(self) -> None:
        """Write, read, list and delete a test object. Raises an error that says what is missing.

        It is Unavailable if the store does not answer, and Invalid if something must be changed. A store without space is accepted.
        """
        name, content = self._probe, secrets.token_bytes(16)
        doing, self.health.is_logged = "be written", False  # the caller reports it
        try:
            await self.put(name, content)
            doing = "be read"
            if await self.get(name) != content:
                raise Invalid(f"object_store: {self.place}: a test object has another content after it was written")
            doing = "be listed"
            if name not in await self.names(_PROBES):
                raise Invalid(f"object_store: {self.place}: a test object is not listed after it was written")
            doing = "be deleted"
            await self.delete(name)
        except Unavailable as error:
            found = object_health.explain(error.__cause__ or error, self._url)
            if found.is_away:
                raise Unavailable(f"object_store: {self.place}: {found.words}", is_away=True) from error
            if not found.is_full:
                raise Invalid(f"object_store: {self.place}: a test object cannot {doing}: {found.words}") from error
        finally:
            self.health.is_logged = True

    async def read_id(self) -> str | None:
        """Return the id of the store; None if it has none."""
        from obstore import get_async

        try:
            with self._reported():
                return bytes(await (await get_async(self._store, ID_NAME)).bytes_async()).decode().strip()
        except FileNotFoundError:
            return None

    async def is_used(self) -> bool:
        """Return whether the store has objects that a database refers to, or did."""
        for kind in KINDS:
            async for page in self.listing(kind):
                if page:
                    return True
        return False

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
            with self._reported():
                return bytes(await (await get_async(self._store, _checked(name))).bytes_async())
        except FileNotFoundError:
            raise await self._absent(name) from None

    async def get_range(self, name: str, start: int, length: int) -> bytes:
        """That part of it; less, where it ends before."""
        from obstore import get_range_async
        from obstore.exceptions import BaseError

        try:
            with self._reported():
                try:
                    return bytes(await get_range_async(self._store, _checked(name), start=start, length=length))
                except BaseError as error:
                    if not object_health.is_beyond_end(error):
                        raise
                    return b""
        except FileNotFoundError:
            raise await self._absent(name) from None

    async def stream(self, name: str) -> AsyncIterator[bytes]:
        """Its content in pieces, for what is too large to hold."""
        from obstore import get_async

        try:
            with self._reported():
                result = await get_async(self._store, _checked(name))
        except FileNotFoundError:
            raise await self._absent(name) from None
        pieces = aiter(result.stream(min_chunk_size=_CHUNK_BYTES))
        while True:
            try:
                with self._reported():
                    piece = bytes(await anext(pieces))
            except StopAsyncIteration:
                return
            yield piece

    async def delete(self, name: str) -> None:
        """Remove it; nothing happens where there is none."""
        from obstore import delete_async

        await self._require_mounted()
        with contextlib.suppress(FileNotFoundError), self._reported():
            await delete_async(self._store, _checked(name))

    async def names(self, folder: str) -> list[str]:
        """Yield the names of all objects under a folder."""
        import obstore

        await self._require_mounted()
        with self._reported():
            pages = obstore.list(self._store, folder if _KIND.match(folder) else _checked(folder))  # pyright: ignore[reportUnknownMemberType]  (arrow's)
            return [each["path"] async for page in pages for each in page]

    async def listing(self, kind: str) -> AsyncIterator[list[Listed]]:
        """Everything of a kind (the first part of a name), a page at a time."""
        import obstore

        if not _KIND.match(kind):
            raise ValueError(f"{kind!r} is not a kind of object")
        listed = obstore.list(self._store, kind, chunk_size=LISTING_PAGE_ROWS)  # pyright: ignore[reportUnknownMemberType]  (arrow's)
        pages = aiter(listed)
        await self._require_mounted()
        while True:
            try:
                with self._reported():
                    page = await anext(pages)
            except StopAsyncIteration:
                return
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
            with self._reported():
                return (await head_async(self._store, _checked(name)))["size"]
        except FileNotFoundError:
            await self._require_same()
            return None


def open_objects(url: str) -> Objects:
    """Open a store by its URL; a local folder is made if it is not there, for its owner alone."""
    from obstore.store import LocalStore, MemoryStore, from_url

    parts = urlsplit(url)
    if parts.scheme == "file":
        folder = Path(unquote(parts.path))
        try:
            durable.make_directory(folder)
        except OSError as error:
            raise Invalid(f"object_store: {url} cannot be made: {error.strerror}") from error
        return Objects(LocalStore(folder), url, folder)
    if parts.scheme == "memory":
        return Objects(MemoryStore(), url)
    try:
        return Objects(from_url(url, retry_config=_RETRIES), url)
    except Exception as error:  # obstore's own classes differ by store; all of them mean that the setting is wrong
        found = object_health.explain(error, url)
        raise Invalid(f"object_store: {object_health.place(url)!r} cannot be opened: {found.words}") from error


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"{name!r} cannot name an object: names are a kind and ids")
    return name


def _size(content: bytes | Path) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
