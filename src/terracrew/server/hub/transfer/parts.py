"""Uploads in parts: a state or a plan that is too large for one request through a proxy."""

import re

from litestar import put
from litestar.params import FromPath, JSONBody

from terracrew.errors import Invalid
from terracrew.protocol.uploads import PART_BYTES, UploadStaged, UploadWanted
from terracrew.server.hub.transfer import own_attempt
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.hub.transfer.plans import MAX_PLAN_BYTES, PLAN_TARGET
from terracrew.server.hub.transfer.states import MAX_SEALED_STATE_BYTES
from terracrew.server.uploads import service as parts

_STATE_TARGET = re.compile(r"states/[1-9][0-9]{0,15}\Z")


@put("/uploads", status_code=200)
async def stage(
    request: TransferCall, job_id: FromPath[str], attempt: FromPath[int], data: JSONBody[UploadWanted]
) -> UploadStaged:
    """Announce a state or a plan that is uploaded in parts, or return which parts are still missing."""
    if _STATE_TARGET.match(data.target):
        own = await own_attempt.find(request, job_id, attempt)
        return await parts.stage(request.context.staging, own.uploader, data, MAX_SEALED_STATE_BYTES)
    if data.target == PLAN_TARGET:
        own = await own_attempt.planning(request, job_id, attempt)
        return await parts.stage(request.context.staging, own.uploader, data, MAX_PLAN_BYTES, is_only=True)
    raise Invalid("the target of an upload must be `plan` or `states/` and a number")


@put("/uploads/{upload:str}/{index:int}", status_code=204, request_max_body_size=PART_BYTES)
async def put_part(
    request: TransferCall, job_id: FromPath[str], attempt: FromPath[int], upload: FromPath[str], index: FromPath[int]
) -> None:
    own = await own_attempt.find(request, job_id, attempt)
    await parts.put_part(request.context.staging, own.uploader, upload, index, await request.body())
