"""Bodies that arrive in parts. The parts are encrypted objects that every server of a cluster can read, until the body is used."""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO, TypeVar

from terracrew import backoff, ids
from terracrew.errors import Conflict, Incomplete, Invalid, NotFound, TooLarge, Unavailable
from terracrew.protocol.transfers import PART_BYTES, UploadStaged, UploadWanted, part_count
from terracrew.server.db.seam import Database, Tx, Work
from terracrew.server.disk_reserve import DiskReserve
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.uploads import store
from terracrew.server.uploads.store import Upload

MAX_UNFINISHED = 4
"""The most unfinished uploads of one owner. The least recently used one is removed for a new one, so that nobody fills the store."""
UNUSED_SECONDS = 24 * 3600.0
"""An upload that nobody has used for this long is removed. Its client sends the parts again, if it ever comes back."""
SWEEP_SECONDS = 1800.0
_TOUCH_SECONDS = 600.0
_MAX_READS_AHEAD = 8
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
T = TypeVar("T")


@dataclass(frozen=True)
class Staging:
    """The store for the parts of uploads, and the key that encrypts them."""

    db: Database
    objects: Objects
    keys: Keyring
    disk: DiskReserve


async def write_row(staging: Staging, object_name: str | None, work: Work[T]) -> T:
    """Write the row that names an object, which is stored already. If the work raises an error, the object is deleted.

    It stays if the outcome is not known, as when the request is canceled or the connection breaks during the commit: the row may
    have been written, and must not name an object that is gone.
    """
    raised: list[Exception] = []

    async def noted(tx: Tx) -> T:
        try:
            return await work(tx)
        except Exception as error:
            raised.append(error)
            raise

    try:
        return await staging.db.write(noted)
    except Exception as error:
        if object_name is not None and any(error is each for each in raised):
            with contextlib.suppress(Unavailable):  # the error of the work says more
                await asyncio.shield(staging.objects.delete(object_name))
        raise


async def stage(
    staging: Staging, owner: str, wanted: UploadWanted, max_bytes: int, *, is_only: bool = False
) -> UploadStaged:
    """Announce an upload, or return which parts of it are still missing. With `is_only`, it replaces others for the same target."""
    if not _SHA256.match(wanted.sha256) or wanted.size <= 0:
        raise Invalid("an upload has a size of at least one byte and the SHA-256 of its content in hexadecimal digits")
    if wanted.size > max_bytes:
        raise TooLarge(f"{wanted.target} has {wanted.size:,} bytes, and the largest that is accepted has {max_bytes:,}")
    staging.disk.require()
    upload = await staging.db.write(lambda tx: store.stage(tx, owner, wanted))
    if upload.result is not None:
        if await staging.objects.exists(upload.result):
            return UploadStaged(upload.id, PART_BYTES, [])
        await remove(
            staging.db, staging.objects, upload
        )  # the object that was made from it was removed, so it starts again
        upload = await staging.db.write(lambda tx: store.stage(tx, owner, wanted))
    for at, other in enumerate(await staging.db.read(lambda tx: store.unfinished(tx, owner))):
        is_replaced = is_only and other.target == upload.target and other.id != upload.id
        if at >= MAX_UNFINISHED or is_replaced:
            await remove(staging.db, staging.objects, other)
    return UploadStaged(upload.id, PART_BYTES, await _missing(staging.objects, upload))


async def put_part(staging: Staging, owner: str, upload_id: str, index: int, content: bytes) -> None:
    """Store one part. Parts may arrive in any order, repeatedly, and at any server."""
    upload = await _find(staging.db, owner, upload_id)
    if upload.result is not None:
        return  # a request that was repeated although it had succeeded
    if not 0 <= index < part_count(upload.size):
        raise Invalid(f"upload {upload_id} has {part_count(upload.size)} parts, so none has the index {index}")
    expected = min(PART_BYTES, upload.size - index * PART_BYTES)
    if len(content) != expected:
        raise Invalid(f"part {index} of upload {upload_id} has {expected:,} bytes, not {len(content):,}")
    staging.disk.require()
    name = _part(upload, index)
    await staging.objects.put(name, staging.keys.encrypt(content, name))
    try:
        now = await _find(staging.db, owner, upload_id)
    except Incomplete:
        await staging.objects.delete(name)  # the upload was removed meanwhile, and nothing would ever remove this part
        raise
    if now.result is not None:  # another request has sent the same part and used the whole
        await staging.objects.delete(name)
        return
    if await staging.db.read(lambda tx: _is_stale(tx.now, upload)):
        await staging.db.write(lambda tx: store.touch(tx, upload.id))


class Body:
    """The content of a request: sent with it, or staged before in parts."""

    def __init__(self, staging: Staging, received: AsyncIterator[bytes], upload: Upload | None) -> None:
        self._staging, self._received, self._upload = staging, received, upload

    @property
    def result(self) -> str | None:
        """The object that an earlier request made from this upload, if there was one. The answer to that request was lost."""
        return self._upload and self._upload.result

    def pieces(self) -> AsyncIterator[bytes]:
        return self._received if self._upload is None else _content(self._staging, self._upload)

    async def write_to(self, file: IO[bytes], expected: str) -> tuple[str, int]:
        """Write the content to a file, and return its SHA-256 and its size. `expected` says what an empty body should have been."""
        digest, size = hashlib.sha256(), 0
        async for piece in self.pieces():
            digest.update(piece)
            file.write(piece)
            size += len(piece)
        if not size:
            raise Invalid(f"the body is empty: send {expected}")
        file.flush()
        return digest.hexdigest(), size

    async def finish(self, result: str) -> None:
        """Record that the content is stored under this name, and remove the parts."""
        if (upload := self._upload) is not None:
            await self._staging.db.write(lambda tx: store.finish(tx, upload.id, result))
            await _remove_parts(self._staging.objects, upload)

    async def discard(self) -> None:
        """Remove the parts of a body that was used and is stored under no name of its own."""
        if self._upload is not None:
            await remove(self._staging.db, self._staging.objects, self._upload)


async def body(staging: Staging, received: AsyncIterator[bytes], owner: str, upload_id: str, target: str) -> Body:
    """Return the body of a request for this target; `upload_id` is empty if the request contains the content itself."""
    if not upload_id:
        staging.disk.require()
        return Body(staging, received, None)
    upload = await _find(staging.db, owner, upload_id)
    if upload.target != target:
        raise Invalid(f"upload {upload_id} is for {upload.target}, not for {target}")
    if upload.result is not None and not await staging.objects.exists(upload.result):
        raise Incomplete(f"what was made of upload {upload_id} has been removed: upload it again")
    if upload.result is None:
        staging.disk.require()
    if upload.result is None and (missing := await _missing(staging.objects, upload)):
        raise Incomplete(
            f"upload {upload_id} lacks {len(missing)} of its {part_count(upload.size)} parts", missing=missing
        )
    return Body(staging, received, upload)


async def record(staging: Staging, owner: str, wanted: UploadWanted, result: str) -> Upload:
    """Record a body that arrived whole and is stored under this name, as if it had been uploaded in parts.

    If the same body was stored before, the new object is deleted: repetitions take no room.
    """

    async def work(tx: Tx) -> Upload:
        upload = await store.stage(tx, owner, wanted)
        if upload.result is None:
            await store.finish(tx, upload.id, result)
        return upload

    upload = await staging.db.write(work)
    if upload.result is not None and await staging.objects.exists(upload.result):
        await staging.objects.delete(result)
    elif upload.result is not None:
        await staging.db.write(lambda tx: store.finish(tx, upload.id, result))
    return upload


async def require_below(tx: Tx, owner: str, prefix: str, max_files: int, max_bytes: int) -> None:
    """Raise Conflict if an owner has stored this much for targets that begin with a text, and not used it for long enough."""
    files, size = await store.amount(tx, owner, prefix)
    if files >= max_files or size >= max_bytes:
        raise Conflict(
            f"you have sent {files:,} files with {size:,} bytes, and at most {max_files:,} files with {max_bytes:,} bytes are kept: "
            f"what nobody uses is removed after {UNUSED_SECONDS / 3600:.0f} hours"
        )


async def finished(tx: Tx, owner: str, upload_id: str, target: str) -> Upload:
    """Return an upload for this target whose content is stored as an object."""
    upload = await store.find(tx, owner, upload_id) if ids.is_id("upl", upload_id) else None
    if upload is None or upload.result is None or upload.target != target:
        raise Incomplete(f"the upload {upload_id[:50]!r} for {target} does not exist (any more): send the file again")
    return upload


async def hold(tx: Tx, upload: Upload) -> None:
    """Keep an upload, and so the object that was made from it, until the transaction has written a row that names the object."""
    if not await store.touch(tx, upload.id):
        raise Incomplete(f"the upload {upload.id} for {upload.target} does not exist any more: send the file again")


async def sweep(db: Database, objects: Objects) -> int:
    """Remove uploads that have not been used for long, and return how many."""
    count = 0
    while True:
        uploads = await db.read(lambda tx: store.unused(tx, UNUSED_SECONDS))
        for upload in uploads:
            await remove(db, objects, upload)
        count += len(uploads)
        if len(uploads) < store.PAGE_ROWS:
            return count


async def sweep_regularly(db: Database, objects: Objects) -> None:
    """Remove old uploads. Every server does this; an upload that another server has removed is skipped."""
    while True:
        await asyncio.sleep(backoff.jittered(SWEEP_SECONDS))
        await sweep(db, objects)


async def remove(db: Database, objects: Objects, upload: Upload) -> None:
    """Delete the parts before the row: a row without parts is harmless, but parts without a row would stay forever."""
    await _remove_parts(objects, upload)
    await db.write(lambda tx: store.remove(tx, upload))


async def _find(db: Database, owner: str, upload_id: str) -> Upload:
    is_id = ids.is_id("upl", upload_id)
    upload = await db.read(lambda tx: store.find(tx, owner, upload_id)) if is_id else None
    if upload is None:
        raise Incomplete(f"the upload {upload_id[:50]!r} does not exist (any more): stage it again")
    return upload


async def _missing(objects: Objects, upload: Upload) -> list[int]:
    found = {int(name.rpartition("/")[2]) for name in await objects.names(f"parts/{upload.id}")}
    return [index for index in range(part_count(upload.size)) if index not in found]


async def _content(staging: Staging, upload: Upload) -> AsyncIterator[bytes]:
    """Yield the parts in their order. They are read ahead, because each may take a round trip to a distant store."""

    async def read(index: int) -> bytes:
        name = _part(upload, index)
        return staging.keys.decrypt(await staging.objects.get(name), name)

    digest = hashlib.sha256()
    waiting: list[asyncio.Task[bytes]] = []
    try:
        for index in range(part_count(upload.size)):
            while len(waiting) < _MAX_READS_AHEAD and index + len(waiting) < part_count(upload.size):
                waiting.append(asyncio.create_task(read(index + len(waiting))))
            content = await waiting.pop(0)
            digest.update(content)
            yield content
    except NotFound:  # another request has used it or removed it meanwhile
        raise Unavailable(f"upload {upload.id} changed while it was read: try again") from None
    finally:
        for task in waiting:
            task.cancel()
    if digest.hexdigest() != upload.sha256:
        await remove(staging.db, staging.objects, upload)
        raise Unavailable(
            f"what arrived of {upload.target} does not have the SHA-256 that was announced: send it again"
        )


async def _remove_parts(objects: Objects, upload: Upload) -> None:
    for name in await objects.names(f"parts/{upload.id}"):
        await objects.delete(name)


def _part(upload: Upload, index: int) -> str:
    return f"parts/{upload.id}/{index}"


async def _is_stale(now: float, upload: Upload) -> bool:
    return now - upload.used_at > _TOUCH_SECONDS
