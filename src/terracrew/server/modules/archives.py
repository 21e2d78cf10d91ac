"""Uploading a source: to a file first, looked through, and only then stored."""

import asyncio
import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated

from litestar import post
from litestar.params import HeaderParameter

from terracrew import archive as tar
from terracrew import ids
from terracrew.errors import Forbidden, Invalid, NotFound
from terracrew.protocol import uploads
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import Call
from terracrew.server.modules import store
from terracrew.server.modules.model import Archive
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.uploads import service

LARGEST = 100 * 1024 * 1024
TARGET = "archive"
_inspectors = ThreadPoolExecutor(2, "inspect")
"""Looking through one may take seconds, so that only so many are looked through at a time, and nobody else waits."""


@post("/archives", summary="Upload a source", request_max_body_size=LARGEST)
async def upload(request: Call, staged: Annotated[str, HeaderParameter(name=uploads.HEADER)] = "") -> Archive:
    """The body is a tar.gz; what would write outside its folder, or unpack to too much, is refused.

    One that is too large for a proxy on the way is staged before (`PUT /uploads`) and named in the header X-Upload.
    """
    server, who = request.server, request.user
    organization_id = await require(request)
    body = await service.body(server, request.stream(), who.id, staged, TARGET)
    if body.result is not None:
        made = body.result.rpartition("/")[2]
        archive = await server.db.read(lambda tx: store.archive(tx, made, organization_id))
        if archive is None:
            raise NotFound(f"the archive {made}, which was made of this upload, has been removed")
        return archive
    with tempfile.NamedTemporaryFile(dir=server.settings.uploads, prefix="archive-") as file:
        sha256, size = await _receive(body, file)
        found = await asyncio.get_running_loop().run_in_executor(_inspectors, _inspect, file)
        now = datetime.now(UTC)
        new = Archive(ids.new("arc"), organization_id, sha256, size, who.id, now, found.configurations)
        await server.objects.put(new.object, Path(file.name))

    async def work(tx: Tx) -> None:
        await store.insert_archive(tx, new)
        await audit.record(tx, who, "archive.upload", "archive", new.id, {"sha256": sha256, "size": size})

    try:
        await server.db.write(work)
    except BaseException:
        await asyncio.shield(server.objects.delete(new.object))
        raise
    await body.finish(new.object)
    return new


async def require(request: Call) -> str:
    """An archive is of no place yet, so whoever may use one somewhere in the organization may upload it."""
    who: Principal = request.user
    for verb in (Verb.TREE_WRITE, Verb.JOB_RUN):
        seen = await authorize.visible(request.server.db, who, verb)
        if who.organization_id and (seen.organization_id is None or seen.bindings):
            return who.organization_id
    raise Forbidden("you may not upload a source: that takes the right to change or to run a module")


async def _receive(body: service.Body, file: "IO[bytes]") -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    async for chunk in body.pieces():
        digest.update(chunk)
        file.write(chunk)
        size += len(chunk)
    if not size:
        raise Invalid("the body is empty: send a tar.gz archive")
    file.flush()
    return digest.hexdigest(), size


def _inspect(file: "IO[bytes]") -> tar.Contents:
    file.seek(0)
    return tar.inspect(file)
