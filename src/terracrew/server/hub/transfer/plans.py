"""Plans that wait for a person: an attempt stores its plan with its workspace, and a later attempt continues with them.

The source archive of a job is answered in the same way."""

import asyncio
import hashlib
import tempfile
from pathlib import Path
from typing import Annotated

from litestar import get, put
from litestar.params import FromPath, HeaderParameter
from litestar.response import Stream

from terracrew.errors import Invalid, NotFound
from terracrew.protocol.transfers import HEADER
from terracrew.server.http.streams import begun
from terracrew.server.hub.transfer import own_attempt, uploads
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.objects import Objects
from terracrew.server.uploads import service as parts

MAX_PLAN_BYTES = 1 << 30
PLAN_TARGET = "plan"


@put("/plan", status_code=204, request_max_body_size=MAX_PLAN_BYTES)
async def put_plan(
    request: TransferCall,
    job_id: FromPath[str],
    attempt: FromPath[int],
    upload: Annotated[str, HeaderParameter(name=HEADER)] = "",
) -> None:
    """Accept the plan and the workspace that this attempt saves, for an approval or to be applied by another job. They are
    encrypted with the attempt's key."""
    own, context = await own_attempt.planning(request, job_id, attempt), request.context
    received = await parts.body(context.staging, request.stream(), own.uploader, upload, PLAN_TARGET)
    if received.result is not None:
        return
    with uploads.alone(own.ref), tempfile.NamedTemporaryFile(dir=context.folder, prefix="plan-") as body:
        sha256, size = hashlib.sha256(), 0
        async for piece in received.pieces():
            await asyncio.to_thread(body.write, piece)
            sha256.update(piece)
            size += len(piece)
        if not size:
            raise Invalid("the body is empty: a plan is expected")
        await asyncio.to_thread(body.flush)
        await own_attempt.current(
            request, job_id, attempt
        )  # during the upload, the attempt may have ended with another plan
        name = plan_store.object_of(job_id, attempt, sha256.hexdigest())
        if not await context.objects.exists(name):
            await context.objects.put(name, Path(body.name))
        await uploads.remove_others(context.objects, name)
        await received.finish(name)


@get("/plan")
async def get_plan(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> Stream:
    """Return the approved plan that this attempt continues with."""
    own, context = await own_attempt.current(request, job_id, attempt), request.context
    made_by = own.job.plan_attempt
    plan = None if made_by is None else await context.db.read(lambda tx: plan_store.get(tx, job_id, made_by))
    if plan is None or plan.decision != "approved":
        raise NotFound("this attempt has no approved plan to continue with")
    return await streamed(context.objects, plan_store.object_of_plan(plan), "application/octet-stream")


async def streamed(objects: Objects, name: str, media_type: str) -> Stream:
    """Answer with a stored object, or raise the error if it cannot be read."""
    return Stream(await begun(objects.stream(name)), media_type=media_type)


@get("/archive")
async def get_archive(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> Stream:
    own = await own_attempt.current(request, job_id, attempt)
    if (archive := own.job.source.upload) is None:
        raise NotFound("this job's source is not an archive")
    return await streamed(request.context.objects, f"archives/{archive.archive_id}", "application/gzip")
