"""What is too large for the hub goes by HTTP: an attempt's archive and states, for its own executor alone."""

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, NamedTuple

import msgspec
from litestar import Response, Router, get, post, put
from litestar.params import FromPath, HeaderParameter, JSONBody, PathParameter
from litestar.response import Stream

from terracrew.attempt import encryption
from terracrew.attempt.encryption import AttemptCipher
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, Superseded
from terracrew.protocol.events import MAX_STATE_BYTES
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import MUTATING, STEPS_OF, Phase
from terracrew.protocol.uploads import HEADER, PART_BYTES, UploadStaged, UploadWanted
from terracrew.server.db.seam import Tx
from terracrew.server.hub.context import TransferCall, TransferContext
from terracrew.server.hub.transfer import uploads
from terracrew.server.identity.oidc import cloud
from terracrew.server.jobs import decide
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.model import Job
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.modules import reads as modules
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content, object_names
from terracrew.server.state import service as states
from terracrew.server.uploads import service as parts

MAX_PLAN = 1 << 30
_MAX_SEALED_STATE = MAX_STATE_BYTES + encryption.NONCE_BYTES + encryption.TAG_BYTES
_PLAN_TARGET = "plan"
_STATE_TARGET = re.compile(r"states/[1-9][0-9]{0,15}\Z")
_MAX_IN_MEMORY_BYTES = 1 << 20
_sealers = ThreadPoolExecutor(2, "seal")
"""A state is encrypted in one piece, so only so many large ones are in memory at a time."""


class _Own(NamedTuple):
    """The attempt that a request is about, which is the requester's own."""

    ref: AttemptRef
    job: Job
    is_current: bool
    has_begun: bool
    mark: int
    state_key: bytes


class _CloudTokenWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    audience: str
    phase: Phase


@get("/archive")
async def get_archive(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> Stream:
    own = await _current(request, job_id, attempt)
    if (archive := own.job.source.upload) is None:
        raise NotFound("this job's source is not an archive")
    return await _streamed(request.context, f"archives/{archive.archive_id}", "application/gzip")


async def _streamed(context: TransferContext, name: str, media_type: str) -> Stream:
    pieces = context.objects.stream(name)
    # Before the answer starts, so that a missing object is an error and not an empty body.
    first = await anext(pieces, b"")

    async def all_pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return Stream(all_pieces(), media_type=media_type)


@get("/state")
async def get_state(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> Response[bytes]:
    """The module's current state, in plain; nothing (204) where there is none."""
    own = await _current(request, job_id, attempt)
    context = request.context
    kept = await context.db.read(lambda tx: states.kept(tx, own.job.module_id))
    if kept is None:
        return Response(b"", status_code=204, headers={"X-State-Version": "0"})
    plain = await content.read(context.objects, context.keys, kept.contexts, kept.sealed)
    headers = {"X-State-Version": str(kept.state.version)}
    return Response(plain.content, media_type="application/octet-stream", headers=headers)


@put("/uploads", status_code=200)
async def stage(
    request: TransferCall, job_id: FromPath[str], attempt: FromPath[int], data: JSONBody[UploadWanted]
) -> UploadStaged:
    """Announce a state or a plan that comes in parts, or ask what is still missing of it."""
    if _STATE_TARGET.match(data.target):
        own = await _own(request, job_id, attempt)
        return await parts.stage(request.context.staging, _uploader(own.ref), data, _MAX_SEALED_STATE)
    if data.target == _PLAN_TARGET:
        own = await _planning(request, job_id, attempt)
        return await parts.stage(request.context.staging, _uploader(own.ref), data, MAX_PLAN, is_only=True)
    raise Invalid("the target of an upload is `plan` or `states/` and a number")


@put("/uploads/{upload:str}/{index:int}", status_code=204, request_max_body_size=PART_BYTES)
async def put_part(
    request: TransferCall, job_id: FromPath[str], attempt: FromPath[int], upload: FromPath[str], index: FromPath[int]
) -> None:
    own = await _own(request, job_id, attempt)
    await parts.put_part(request.context.staging, _uploader(own.ref), upload, index, await request.body())


@put("/states/{number:int}", status_code=204, request_max_body_size=_MAX_SEALED_STATE)
async def put_state(
    request: TransferCall,
    job_id: FromPath[str],
    attempt: FromPath[int],
    number: Annotated[int, PathParameter(ge=1, le=1 << 53)],
    plain: Annotated[bool, HeaderParameter(name="X-Plain")] = False,
    upload: Annotated[str, HeaderParameter(name=HEADER)] = "",
) -> None:
    """A state under the attempt's key or, salvaged when nobody had that key any more, in plain.

    Once the event of this number has arrived, only content that is stored already is accepted again. A fenced attempt may
    still deliver: what becomes of it is decided when its event arrives.
    """
    own, context = await _own(request, job_id, attempt), request.context
    key = (
        None
        if plain
        else context.keys.decrypt(own.state_key, claims.state_key_context(own.ref.job_id, own.ref.attempt))
    )
    received = await parts.body(context.staging, request.stream(), _uploader(own.ref), upload, f"states/{number}")
    if received.result is not None:
        return
    folder = context.folder
    # What came in plain is held in memory: it does not touch the disk before it is encrypted.
    room = MAX_STATE_BYTES + 1 if plain else _MAX_IN_MEMORY_BYTES
    with (
        uploads.alone(own.ref),
        tempfile.SpooledTemporaryFile(room, dir=str(folder)) as body,
        tempfile.NamedTemporaryFile(dir=folder, prefix="state-") as sealed,
    ):
        async for piece in received.pieces():
            body.write(piece)
        bound_to, _ = content.state_contexts(own.job.module_id, job_id, attempt, number)
        try:
            sha256, is_raw = await asyncio.get_running_loop().run_in_executor(
                _sealers, _reseal, body, sealed, key, own.ref, context.keys, bound_to
            )
        except ValueError as error:
            raise Invalid(str(error)) from None
        name_of = object_names.of_unreadable_event if is_raw else object_names.of_event
        name = name_of(job_id, attempt, number, sha256)
        mark = (await _own(request, job_id, attempt)).mark  # events may have arrived while the body came
        await uploads.keep_state(context.objects, own.ref, number, mark, name, Path(sealed.name))
        await received.finish(name)


@put("/plan", status_code=204, request_max_body_size=MAX_PLAN)
async def put_plan(
    request: TransferCall,
    job_id: FromPath[str],
    attempt: FromPath[int],
    upload: Annotated[str, HeaderParameter(name=HEADER)] = "",
) -> None:
    """A plan and its workspace, which this attempt keeps for a person to look at; encrypted by it, opaque here."""
    own, context = await _planning(request, job_id, attempt), request.context
    received = await parts.body(context.staging, request.stream(), _uploader(own.ref), upload, _PLAN_TARGET)
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
        await _current(request, job_id, attempt)  # while it came, the attempt may have ended, waiting with another one
        name = plan_store.object_of(job_id, attempt, sha256.hexdigest())
        if not await context.objects.exists(name):
            await context.objects.put(name, Path(body.name))
        await uploads.remove_others(context.objects, name)
        await received.finish(name)


@get("/plan")
async def get_plan(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> Stream:
    """Return the approved plan that this attempt continues with."""
    own, context = await _current(request, job_id, attempt), request.context
    made_by = own.job.plan_attempt
    plan = None if made_by is None else await context.db.read(lambda tx: plan_store.get(tx, job_id, made_by))
    if plan is None or plan.decision != "approved":
        raise NotFound("this attempt has no approved plan to continue with")
    return await _streamed(context, plan_store.object_of(job_id, plan.attempt, plan.sha256), "application/octet-stream")


@post("/cloud-token", status_code=200)
async def cloud_token(
    request: TransferCall, job_id: FromPath[str], attempt: FromPath[int], data: JSONBody[_CloudTokenWanted]
) -> cloud.CloudToken:
    """Return a token for one of the module's clouds. One that may change resources needs an attempt that has begun to."""
    own, context = await _current(request, job_id, attempt), request.context
    if data.phase == "apply" and not MUTATING & set(STEPS_OF.get(own.job.type, ())):
        raise Forbidden(f"a {own.job.type} changes nothing, so it gets no token of the phase apply")
    if data.phase == "apply" and not own.has_begun:
        raise Conflict("this attempt has not begun to change anything: a token of the phase apply is given after that")
    row = await context.db.read(lambda tx: modules.names(tx, own.job.module_id))
    if row is None or data.audience not in msgspec.json.decode(row["oidc_audiences"], type=list[str]):
        raise Forbidden(f"{data.audience[:200]!r} is none of this module's audiences (oidc_audiences)")
    subject = cloud.Subject(
        own.job.organization_id, row["organization"], own.job.module_id, row["path"], job_id, attempt, data.phase
    )
    return await cloud.mint(context.identity.tokens.signing, context.identity.url, subject, data.audience)


def _uploader(ref: AttemptRef) -> str:
    return f"{ref.job_id}:{ref.attempt}"


async def _own(request: TransferCall, job_id: str, attempt: int) -> _Own:
    who = request.user
    if who.attempt is None:
        raise Forbidden("only an attempt's own hub credential is good for this")
    place = authorize.module(who.attempt.organization_id, who.attempt.module_path, job_id, attempt)
    await authorize.require(request.context.db, who, Verb.ATTEMPT_REPORT, place)

    ref, late = AttemptRef(job_id, attempt), request.context.late_delivery

    async def read(tx: Tx) -> tuple[jobs.Owned, str | None]:
        found = await jobs.owned(tx, ref)
        return found, decide.refusal_of_events(found.attempt, datetime.fromtimestamp(tx.now, UTC), late)

    owned, why = await request.context.db.read(read)
    if why is not None:
        raise Forbidden(f"nothing more is accepted from attempt {attempt} of job {owned.job.number}: {why}")
    return _Own(
        ref,
        owned.job,
        decide.is_current(owned.job, owned.attempt),
        owned.attempt.begun_at is not None,
        owned.attempt.mark,
        owned.sealed_key,
    )


async def _current(request: TransferCall, job_id: str, attempt: int) -> _Own:
    """An attempt that is over starts nothing more, so there is nothing more for it to read."""
    own = await _own(request, job_id, attempt)
    if not own.is_current:
        raise Superseded("this attempt is no longer the current one")
    return own


async def _planning(request: TransferCall, job_id: str, attempt: int) -> _Own:
    """Return an attempt that may still wait with its plan for a person."""
    own = await _current(request, job_id, attempt)
    if own.has_begun:
        raise Conflict("this attempt has begun: its plan is not one to wait with")
    return own


def _reseal(
    body: "IO[bytes]", sealed: "IO[bytes]", key: bytes | None, ref: AttemptRef, keys: Keyring, context: str
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


router = Router(
    "/runnerhub/attempts/{job_id:str}/{attempt:int}",
    route_handlers=[get_archive, get_state, stage, put_part, put_state, put_plan, get_plan, cloud_token],
    include_in_schema=False,
)
