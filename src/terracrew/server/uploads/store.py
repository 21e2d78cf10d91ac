"""Rows of uploads: what is received in parts, from whom, and the object that was made from it."""

from collections.abc import Sequence

import msgspec

from terracrew import ids
from terracrew.protocol.transfers import UploadWanted
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table

PAGE_ROWS = 100
"""How many unused uploads are read at a time."""


class Upload(msgspec.Struct, frozen=True):
    id: str
    owner: str
    target: str
    sha256: str
    size: int
    result: str | None
    used_at: float


UPLOADS = Table("uploads", Upload)


async def stage(tx: Tx, owner: str, wanted: UploadWanted) -> Upload:
    """Return the upload of this content for this target: the existing one, or a new one."""
    new = Upload(ids.new("upl"), owner, wanted.target, wanted.sha256, wanted.size, result=None, used_at=tx.now)
    row = await tx.one(
        UPLOADS.insert()
        + f""" ON CONFLICT (owner, target, sha256, size) DO UPDATE SET used_at = excluded.used_at
        RETURNING {UPLOADS.columns}""",
        **to_params(new),
    )
    assert row is not None
    return row_to(Upload, row)


async def find(tx: Tx, owner: str, upload_id: str) -> Upload | None:
    return await UPLOADS.find(tx, id=upload_id, owner=owner)


async def touch(tx: Tx, upload_id: str) -> bool:
    """Note that an upload is used, so that nobody removes it until the transaction has ended. Returns whether it still exists."""
    return bool(await tx.run("UPDATE uploads SET used_at = :now WHERE id = :id", id=upload_id, now=tx.now))


async def finish(tx: Tx, upload_id: str, result: str) -> None:
    await tx.run(
        "UPDATE uploads SET result = :result, used_at = :now WHERE id = :id", id=upload_id, result=result, now=tx.now
    )


async def unfinished(tx: Tx, owner: str) -> list[Upload]:
    """Return the unfinished uploads of an owner, the most recently used ones first."""
    return await UPLOADS.all(
        tx, "FROM uploads WHERE owner = :owner AND result IS NULL ORDER BY used_at DESC, id DESC", owner=owner
    )


async def amount(tx: Tx, owner: str, prefix: str) -> tuple[int, int]:
    """Return how many bodies of an owner are stored whole for targets that begin with a text, and how many bytes they have."""
    row = await tx.one(
        """SELECT count(*) AS files, coalesce(sum(size), 0) AS bytes FROM uploads
        WHERE owner = :owner AND result IS NOT NULL AND substr(target, 1, :length) = :prefix""",
        owner=owner,
        prefix=prefix,
        length=len(prefix),
    )
    return (int(row["files"]), int(row["bytes"])) if row else (0, 0)


async def unused(tx: Tx, age_seconds: float) -> list[Upload]:
    """Return a page of the uploads that have not been used for this long, the oldest first."""
    return await UPLOADS.all(
        tx,
        "FROM uploads WHERE used_at < :before ORDER BY used_at LIMIT :page",
        before=tx.now - age_seconds,
        page=PAGE_ROWS,
    )


async def remove(tx: Tx, upload: Upload) -> bool:
    """Delete an upload, unless it was used in the meantime."""
    found = await tx.run(
        "DELETE FROM uploads WHERE id = :id AND used_at = :used_at", id=upload.id, used_at=upload.used_at
    )
    return bool(found)


async def known(tx: Tx, upload_ids: Sequence[str]) -> set[str]:
    """Return the uploads among these that exist."""
    rows = await tx.each_id("SELECT uploads.id FROM batch JOIN uploads ON uploads.id = batch.id", upload_ids)
    return {row["id"] for row in rows}


async def results(tx: Tx, names: Sequence[str]) -> set[str]:
    """Return those of these objects that were made from an upload that is not forgotten yet."""
    rows = await tx.each(
        "SELECT uploads.result FROM batch JOIN uploads ON uploads.result = batch.name",
        {"name": "text"},
        [(each,) for each in names],
    )
    return {row["result"] for row in rows}
