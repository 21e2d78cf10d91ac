"""The state of a module for the backend `http` of engines: they lock it, write it and unlock it (`docs/states.md`).

Engines send the methods LOCK and UNLOCK to the address of the state, and `http/request.py` passes them on to the handlers of the
lock here. They authenticate by HTTP Basic, with an API token as the password, because they know nothing else.
"""

import base64
import binascii
import hashlib
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

import msgspec
from litestar import Response, delete, post
from litestar.params import FromPath, HeaderParameter, QueryParameter

from terracrew.api.locks import MAX_TEXT_CHARACTERS, ModuleLock, TakeLock
from terracrew.api.states import State
from terracrew.errors import Conflict, Invalid, Locked
from terracrew.protocol.transfers import HEADER
from terracrew.server.api.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.principals.model import Principal
from terracrew.server.state import importing, locks, writing
from terracrew.server.state.writing import StateWrite
from terracrew.server.uploads import service as uploads
from terracrew.wording import lock_words

MAX_LOCK_INFO_BYTES = 64 << 10
LockId = Annotated[str, QueryParameter(name="ID", max_length=MAX_TEXT_CHARACTERS, description="The id of your lock")]


class LockInfo(msgspec.Struct, frozen=True, rename="pascal"):
    """A lock as engines describe it."""

    id: str = msgspec.field(default="", name="ID")
    operation: str = ""
    info: str = ""
    who: str = ""
    version: str = ""
    created: datetime | None = None
    path: str = ""


_lock_info = msgspec.json.Decoder(LockInfo)


@post(
    "/modules/{module:str}/state",
    status_code=200,
    summary="Write a module's state",
    request_max_body_size=importing.MAX_IMPORTED_BYTES,
    takes_basic=True,
)
async def write(
    request: TreeCall,
    module: FromPath[str],
    lock_id: LockId = "",
    force: Annotated[
        bool, QueryParameter(description="Also if it does not continue the state that the module has")
    ] = False,
    md5: Annotated[str, HeaderParameter(name="Content-MD5")] = "",
    staged: Annotated[str, HeaderParameter(name=HEADER)] = "",
) -> State:
    """Make a state that an engine has written the current one of a module, under the lock that you hold (`ID`).

    It must have the lineage of the current one and a higher serial. Without the lock it is refused. If your lock was removed by force,
    the state is kept in quarantine. This is what the backend `http` of OpenTofu and Terraform calls.
    """
    context, who = request.context, request.user
    await request.read(writing.find, tree_path(module))  # before a large body is received
    if not lock_id:
        raise Locked(
            "a state is written only under the lock of its module, so engines must not run with `-lock=false`: the query parameter ID "
            "names the lock"
        )
    body = await uploads.body(context.staging, request.stream(), who.id, staged, importing.TARGET)
    given = await importing.receive(body)
    _check_md5(given.plain, md5)
    made = await writing.write(
        context.staging, who, tree_path(module), given, StateWrite(is_forced=force, client_lock_id=lock_id)
    )
    await body.discard()
    return made


@post(
    "/modules/{module:str}/state/lock",
    status_code=200,
    summary="Lock a module's state as an engine",
    request_max_body_size=MAX_LOCK_INFO_BYTES,
    takes_basic=True,
)
async def take(request: TreeCall, module: FromPath[str]) -> Response[LockInfo]:
    """Lock a module for an engine, which describes its lock. If it is not free, the answer is 423 and describes who holds it."""
    info = _read(await request.body())
    asked = TakeLock(
        reason=_cut(info.info),
        client_lock_id=info.id,
        operation=_cut(info.operation) or "unknown",
        who=_cut(info.who),
        client_version=_cut(info.version),
        client_path=_cut(info.path),
    )

    async def lock(tx: Tx, who: Principal) -> ModuleLock:
        found = await importing.find(tx, who, tree_path(module))
        return await locks.take(tx, who, found.id, asked)

    try:
        return Response(_shown(await request.write(lock)))
    except Conflict as error:
        return Response(_refusal(error), status_code=HTTPStatus.LOCKED)


@delete(
    "/modules/{module:str}/state/lock",
    status_code=200,
    summary="Unlock a module's state as an engine",
    request_max_body_size=MAX_LOCK_INFO_BYTES,
    takes_basic=True,
)
async def release(request: TreeCall, module: FromPath[str]) -> Response[LockInfo]:
    """Unlock a module that an engine has locked. `force-unlock` names only the id of the lock, which is then removed by force."""
    info = _read(await request.body())
    try:
        if info.operation:
            return Response(_shown(await request.write(locks.release, tree_path(module), info.id)))
        return Response(_shown(await request.write(locks.force, tree_path(module), "force-unlock", info.id)))
    except Conflict as error:
        return Response(_refusal(error), status_code=HTTPStatus.LOCKED)


def _read(body: bytes) -> LockInfo:
    try:
        info = _lock_info.decode(body)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the body should describe the lock, as engines do: {error}") from None
    if not info.id:
        raise Invalid.in_field("ID", "the engine must give its lock an id")
    return info


def _cut(text: str) -> str:
    return text[:MAX_TEXT_CHARACTERS].replace("\x00", "")


def _shown(lock: ModuleLock) -> LockInfo:
    holder = lock_words.holder(lock.holder_kind, lock.holder_name, lock.credential)
    who = f"{holder}: {lock.who}" if lock.who else holder
    lock_id = lock.client_lock_id or lock.id
    return LockInfo(lock_id, lock.operation, lock.reason, who, lock.client_version, lock.created_at, lock.client_path)


def _refusal(error: Conflict) -> LockInfo:
    """Describe to an engine why the lock is not free. It prints the description."""
    found = error.details.get("lock")
    if isinstance(found, ModuleLock):
        shown = _shown(found)
        return msgspec.structs.replace(shown, info=shown.info or error.message)
    number = error.details.get("number")
    what = f"job {number}" if number else "Terracrew"
    return LockInfo(id=f"job-{number}" if number else "-", operation=what, info=error.message, who=what)


def _check_md5(plain: bytes, given: str) -> None:
    if not given:
        return
    try:
        expected = base64.b64decode(given, validate=True)
    except binascii.Error:
        expected = b""
    if hashlib.md5(plain, usedforsecurity=False).digest() != expected:
        raise Invalid("the state has another MD5 than the header Content-MD5 says: it was damaged on the way")
