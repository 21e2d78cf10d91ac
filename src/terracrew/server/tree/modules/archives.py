"""Uploading a source: the archive is written to a file, inspected, and only then stored."""

import asyncio
import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import IO

from terracrew import ids
from terracrew.api.modules import Archive
from terracrew.errors import Forbidden, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.modules import reads, store
from terracrew.server.uploads import service as uploads
from terracrew.server.uploads.service import Body, Staging
from terracrew.source_rules import archive as tar

MAX_ARCHIVE_BYTES = 100 * 1024 * 1024
TARGET = "archive"
_inspectors = ThreadPoolExecutor(2, "inspect")
"""Inspecting an archive may take seconds, so two threads of their own do it, and no other work waits for them."""


async def require(db: Database, who: Principal) -> str:
    """Return the organization. An archive is not in the tree yet, so the right to use one anywhere in the organization is enough."""
    for verb in (Verb.TREE_WRITE, Verb.JOB_RUN):
        seen = await authorize.visible(db, who, verb)
        if who.organization_id and (seen.organization_id is None or seen.bindings):
            return who.organization_id
    raise Forbidden("you may not upload a source: that requires the right to change or to run a module")


async def may_use(tx: Tx, who: Principal, archive: Archive) -> bool:
    """Return whether somebody may use an archive as a source: they have uploaded it, or may run the jobs of a module that uses it.

    Whoever runs a source can read it, and every viewer of a module sees the id of its archive.
    """
    if archive.created_by == who.id:
        return True
    seen = await authorize.visible(tx, who, Verb.JOB_RUN)
    if seen.is_everything(archive.organization_id):
        return True
    paths = await reads.used_at(tx, archive.id)
    return any(seen.covers(authorize.module(archive.organization_id, path)) for path in paths)


async def hold(tx: Tx, who: Principal, organization_id: str, reference: str) -> Archive:
    """Return an archive that somebody may use, and keep it until the transaction ends."""
    archive = await store.hold_archive(tx, ids.parse("arc", reference), organization_id)
    if archive is None or not await may_use(tx, who, archive):
        raise NotFound(
            f"there is no archive {reference[:50]} that you have uploaded, or that a module uses whose jobs you may run: upload it "
            "first (POST /api/v1/archives)"
        )
    return archive


async def keep(
    staging: Staging, quotas: Quotas, folder: Path, who: Principal, organization_id: str, body: Body
) -> Archive:
    """Write a body to a file in `folder`, inspect it, and store it as an archive."""
    if body.result is not None:
        made = body.result.rpartition("/")[2]
        archive = await staging.db.read(lambda tx: store.archive(tx, made, organization_id))
        if archive is None:
            raise NotFound(f"the archive {made}, which was made from this upload, has been removed")
        return archive
    await staging.db.read(lambda tx: quotas.check_archive(tx, organization_id))  # before a large body is received
    with tempfile.NamedTemporaryFile(dir=folder, prefix="archive-") as file:
        sha256, size = await body.write_to(file, "a tar.gz archive")
        found = await asyncio.get_running_loop().run_in_executor(_inspectors, _inspect, file)
        now = await staging.db.read(_now)
        new = Archive(ids.new("arc"), organization_id, sha256, size, who.id, now, found.configurations)
        await staging.objects.put(new.object, Path(file.name))

    async def work(tx: Tx) -> None:
        await quotas.check_archive(tx, organization_id, size)
        await store.insert_archive(tx, new)
        await audit.record(tx, who, "archive.upload", "archive", new.id, {"sha256": sha256, "size": size})

    await uploads.write_row(staging, new.object, work)
    await body.finish(new.object)
    return new


async def keep_pack(staging: Staging, quotas: Quotas, organization_id: str, data: bytes) -> Archive:
    """Store the pack of a merge result like an archive. Retention removes it when no job needs it any more, or if none uses it."""
    now = await staging.db.read(_now)
    new = Archive(ids.new("arc"), organization_id, hashlib.sha256(data).hexdigest(), len(data), SYSTEM.id, now)
    await staging.db.read(lambda tx: quotas.check_archive(tx, organization_id, new.size))
    await staging.objects.put(new.object, data)

    async def work(tx: Tx) -> None:
        await quotas.check_archive(tx, organization_id, new.size)
        await store.insert_archive(tx, new)

    await uploads.write_row(staging, new.object, work)
    return new


async def _now(tx: Tx) -> datetime:
    return tx.moment


def _inspect(file: "IO[bytes]") -> tar.Contents:
    file.seek(0)
    return tar.inspect(file)
