"""States of an attempt: its executor gets the module's current one, and stores the ones that it delivers.

A state or a plan that is too large for one request through a proxy is uploaded in parts."""

import asyncio
import hashlib
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Annotated

from litestar import Response, get, put
from litestar.params import FromPath, HeaderParameter, JSONBody, PathParameter

from terracrew.attempt import encryption
from terracrew.attempt.encryption import AttemptCipher
from terracrew.errors import Invalid
from terracrew.protocol.events import MAX_STATE_BYTES
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.transfers import HEADER, PART_BYTES, UploadStaged, UploadWanted
from terracrew.server.hub.transfer import own_attempt, uploads
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.hub.transfer.plans import MAX_PLAN_BYTES, PLAN_TARGET
from terracrew.server.jobs.attempts import claims
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content
from terracrew.server.state import service as states
from terracrew.server.uploads import service as parts

MAX_SEALED_STATE_BYTES = MAX_STATE_BYTES + encryption.NONCE_BYTES + encryption.TAG_BYTES
_MAX_IN_MEMORY_BYTES = 1 << 20
_sealers = ThreadPoolExecutor(2, "seal")
"""A state is encrypted in one piece. Two threads limit how many large states are in memory at the same time."""


@get("/state")
async def get_state(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> Response[bytes]:
    """Return the module's current state as plain text, or 204 if there is none."""
    own = await own_attempt.current(request, job_id, attempt)
    context = request.context
    kept = await context.db.read(lambda tx: states.kept(tx, own.job.module_id))
    if kept is None:
        return Response(b"", status_code=204, headers={"X-State-Version": "0"})
    plain = await content.read(context.objects, context.keys, kept.context, kept.sealed)
    headers = {"X-State-Version": str(kept.state.version)}
    return Response(plain.content, media_type="application/octet-stream", headers=headers)


@put("/states/{number:int}", status_code=204, request_max_body_size=MAX_SEALED_STATE_BYTES)
async def put_state(
    request: TransferCall,
    job_id: FromPath[str],
    attempt: FromPath[int],
    number: Annotated[int, PathParameter(ge=1, le=1 << 53)],
    plain: Annotated[bool, HeaderParameter(name="X-Plain")] = False,
    upload: Annotated[str, HeaderParameter(name=HEADER)] = "",
) -> None:
    """Accept a state. It is encrypted with the attempt's key, or plain if it was salvaged after that key was lost.

    Once the event of this number has arrived, only content that is stored already is accepted again. A fenced attempt
    may still deliver. What happens to the state is decided when its event arrives.
    """
    own, context = await own_attempt.find(request, job_id, attempt), request.context
    key = (
        None
        if plain
        else context.keys.decrypt(own.sealed_key, claims.state_key_context(own.ref.job_id, own.ref.attempt))
    )
    received = await parts.body(context.staging, request.stream(), own.uploader, upload, f"states/{number}")
    if received.result is not None:
        return
    folder = context.folder
    # A plain state stays in memory until it is encrypted, so that it is never on the disk.
    room = MAX_STATE_BYTES + 1 if plain else _MAX_IN_MEMORY_BYTES
    with (
        uploads.alone(own.ref),
        tempfile.SpooledTemporaryFile(room, dir=str(folder)) as body,
        tempfile.NamedTemporaryFile(dir=folder, prefix="state-") as sealed,
    ):
        async for piece in received.pieces():
            body.write(piece)
        bound_to = content.state_context(own.job.module_id, job_id, attempt, number)
        try:
            sha256, is_raw = await asyncio.get_running_loop().run_in_executor(
                _sealers, _reseal, body, sealed, key, own.ref, context.keys, bound_to
            )
        except ValueError as error:
            raise Invalid(str(error)) from None
        name_of = content.of_unreadable_event if is_raw else content.of_event
        name = name_of(job_id, attempt, number, sha256)
        mark = (await own_attempt.find(request, job_id, attempt)).mark  # events may have arrived while the body came
        await uploads.keep_state(context.objects, own.ref, number, mark, name, Path(sealed.name))
        await received.finish(name)


def _reseal(
    body: IO[bytes], sealed: IO[bytes], key: bytes | None, ref: AttemptRef, keys: Keyring, context: str
) -> tuple[str, bool]:
    """Re-encrypt a state under the master key. Return the hash of the stored text, and whether that is the unchanged body."""
    body.seek(0)
    found, is_raw = body.read(), False
    if not found:
        raise ValueError("the body is empty: a state is expected")
    if key is not None:
        try:
            found = AttemptCipher(key, ref.job_id, ref.attempt).decrypt(found)
        except ValueError:
            is_raw = True
    sealed.write(keys.encrypt(found, context))
    sealed.flush()
    return hashlib.sha256(found).hexdigest(), is_raw


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
