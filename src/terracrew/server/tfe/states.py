"""States and locks of modules whose plans run at the prompt, and the outputs of every module."""

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.locks import TakeLock
from terracrew.api.states import State
from terracrew.errors import Conflict, Invalid, Locked, NotFound
from terracrew.protocol.events import MAX_STATE_BYTES
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.state import locks, writing
from terracrew.server.terminals import locking, states
from terracrew.server.terminals.model import StateUpload
from terracrew.server.terminals.states import OutputOfState
from terracrew.server.tfe import json_api, workspaces
from terracrew.server.tfe.context import BASE, TfeCall
from terracrew.server.tfe.json_api import ApiResource, Attributes, GivenResource

MAX_STATE_REQUEST_BYTES = MAX_STATE_BYTES * 4 // 3 + 1024 * 1024
"""Older command lines send the state in base64 with its announcement."""
_INTERVAL = {"x-terraform-snapshot-interval": str(states.SNAPSHOT_SECONDS)}
_OPERATION = "OperationTypeApply"
"""The clients do not say what they lock a workspace for, so a lock that is removed by force counts as that of a change."""


class _StateAttributes(Attributes, frozen=True, kw_only=True):
    created_at: str
    serial: int
    status: str
    hosted_state_download_url: str | None = None
    hosted_state_upload_url: str | None = None
    hosted_json_state_upload_url: str | None = None
    resources_processed: bool = True
    state_version: int = 4


class _OutputAttributes(Attributes, frozen=True, kw_only=True):
    name: str
    sensitive: bool
    type: str
    value: object
    detailed_type: object


class _LockRequest(msgspec.Struct, frozen=True):
    """The only request that is no document of JSON:API."""

    reason: str = ""


def _state(request: TfeCall, state: State) -> ApiResource:
    attributes = _StateAttributes(
        created_at=json_api.moment(state.created_at),
        serial=state.serial,
        status="finalized",
        hosted_state_download_url=f"{request.context.url}{BASE}/state-versions/{state.id}/download",
    )
    relationships = {"workspace": json_api.to("workspaces", state.module_id)}
    return ApiResource("state-versions", state.id, attributes, relationships)


def _announced(request: TfeCall, upload: StateUpload) -> ApiResource:
    context = request.context
    attributes = _StateAttributes(
        created_at=json_api.moment(upload.created_at),
        serial=upload.serial,
        status="pending" if upload.state_id is None else "finalized",
        hosted_state_upload_url=context.address(request.user, "state", upload.id),
        hosted_json_state_upload_url=context.address(request.user, "json_state", upload.id),
    )
    return ApiResource("state-versions", upload.id, attributes)


@get("/workspaces/{module:str}/current-state-version")
async def show_current(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    found = await request.read(states.current, module)
    if found is None:
        raise NotFound("the module has no state yet")
    return json_api.answer(_state(request, found), headers=_INTERVAL)


@get("/state-versions/{version:str}")
async def show(request: TfeCall, version: FromPath[str]) -> Response[bytes]:
    if version.startswith("sup_"):
        return json_api.answer(_announced(request, await request.read(states.upload, version)), headers=_INTERVAL)
    return json_api.answer(_state(request, await request.read(states.state, version)), headers=_INTERVAL)


@get("/state-versions/{version:str}/download")
async def download(request: TfeCall, version: FromPath[str]) -> Response[bytes]:
    plain = await states.read(request.context.staging, request.user, version)
    return Response(plain, media_type="application/json")


@post("/workspaces/{module:str}/state-versions", request_max_body_size=MAX_STATE_REQUEST_BYTES)
async def announce(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    """Announce a state, which is uploaded to an address of its own, or take one that is in the request."""
    await request.read(writing.find, module)  # before a large body is read
    async with request.context.bodies.received(request.stream(), MAX_STATE_REQUEST_BYTES) as body:
        given = json_api.read(body)
        upload = await request.write(
            states.announce,
            module,
            serial=_serial(given),
            lineage=json_api.text(given, "lineage"),
            md5=json_api.text(given, "md5"),
            is_forced=json_api.flag(given, "force"),
        )
        if encoded := json_api.text(given, "state"):
            made = await states.write_encoded(request.context.staging, request.user, upload, encoded)
            return json_api.answer(_state(request, made), status=201, headers=_INTERVAL)
    return json_api.answer(_announced(request, upload), status=201, headers=_INTERVAL)


def _serial(given: GivenResource) -> int:
    serial = given.attributes.get("serial")
    if not isinstance(serial, int) or not 0 <= serial < 1 << 63 or not json_api.text(given, "md5"):
        raise Invalid("a state is announced with its `serial` and its `md5`")
    return serial


@get("/workspaces/{module:str}/current-state-version-outputs")
async def list_outputs(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    """List the outputs of the current state. A sensitive value is shown only where it is asked for by its id."""
    found = await request.read(states.current, module)
    if found is None:
        return json_api.answer_list([], 1, json_api.MAX_PAGE_ITEMS, 0)
    outputs = await states.outputs(request.context.staging, request.user, found.id)
    items = [_output(found.id, each, is_shown=not each.is_sensitive) for each in outputs]
    return json_api.answer_list(items, 1, max(1, len(items)), len(items))


@get("/state-version-outputs/{output:str}")
async def show_output(request: TfeCall, output: FromPath[str]) -> Response[bytes]:
    state_id, _, name = output.partition(".")
    for each in await states.outputs(request.context.staging, request.user, state_id):
        if each.name == name:
            return json_api.answer(_output(state_id, each, is_shown=True))
    raise NotFound("there is no such output")


def _output(state_id: str, output: OutputOfState, *, is_shown: bool) -> ApiResource:
    kind = output.type if isinstance(output.type, str) else "array"
    attributes = _OutputAttributes(
        name=output.name,
        sensitive=output.is_sensitive,
        type=kind,
        value=output.value if is_shown else None,
        detailed_type=output.type,
    )
    return ApiResource("state-version-outputs", f"{state_id}.{output.name}", attributes)


@post("/workspaces/{module:str}/actions/lock", status_code=200)
async def lock(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    """Lock a module for an engine at a prompt."""
    asked = TakeLock(reason=_reason(await request.body()), operation=_OPERATION)
    try:
        await request.write(locking.take, module, asked)
    except Locked:
        raise
    except Conflict as error:  # the clients say of every 409 here that somebody holds the lock
        return json_api.refused(422, error.message)
    return await workspaces.answer(request, request.user, module)


def _reason(body: bytes) -> str:
    try:
        return msgspec.json.decode(body or b"{}", type=_LockRequest).reason[:1_000]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the request is not a reason for a lock: {error}") from None


@post("/workspaces/{module:str}/actions/unlock", status_code=200)
async def unlock(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    return await _released(request, module, is_forced=False)


@post("/workspaces/{module:str}/actions/force-unlock", status_code=200)
async def force_unlock(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    return await _released(request, module, is_forced=True)


async def _released(request: TfeCall, module: str, *, is_forced: bool) -> Response[bytes]:
    await request.read(workspaces.find, module, Verb.TREE_READ)

    async def work(tx: Tx) -> str:
        lock = await locks.holder(tx, module)
        if lock is None:
            return await states.words_of_lock(tx, module)
        if not is_forced and locks.is_holder(lock, request.user):
            await states.require_arrived(tx, lock)
        if is_forced:
            await locks.force(tx, request.user, module)
        else:
            await locks.release(tx, request.user, module)
        return ""

    try:
        words = await request.context.db.write(work)
    except Locked:
        words = await request.context.db.read(lambda tx: states.words_of_lock(tx, module))
    if words:
        raise Locked(words)
    return await workspaces.answer(request, request.user, module)
