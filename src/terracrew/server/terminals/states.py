"""States of modules whose plans run at the prompt: announced, uploaded under the lock of their person, and read."""

import asyncio
import base64
import binascii
import hashlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

from terracrew import ids
from terracrew.api.locks import ModuleLock
from terracrew.api.states import State
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError
from terracrew.protocol.events import MAX_STATE_BYTES
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import service as jobs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import content, importing, locks, quarantine, writing
from terracrew.server.state import store as state_store
from terracrew.server.state.store import StoredState
from terracrew.server.state.writing import StateWrite
from terracrew.server.terminals import store
from terracrew.server.terminals.model import StateUpload
from terracrew.server.terminals.state_bodies import StateBodies
from terracrew.server.tree.modules import service as modules
from terracrew.server.uploads.service import Staging

SNAPSHOT_SECONDS = 20
"""How often an engine at a prompt uploads its state during an apply: what a killed machine loses at most."""
KEPT_SECONDS = 24 * 3600.0
"""How long an announcement is remembered."""
MAX_ANNOUNCED = 16
"""How many announcements of one writer are remembered for a module. An engine uploads one state after the other."""
ARRIVAL_SECONDS = 60.0
"""How long the lock is kept for a state that was announced and has not arrived: its client may have stopped for good."""


class OutputOfState(NamedTuple):
    name: str
    value: Any
    type: Any
    is_sensitive: bool


class _StoredOutput(msgspec.Struct, frozen=True):
    value: Any = None
    type: Any = None
    sensitive: bool = False


class _StoredOutputs(msgspec.Struct, frozen=True):
    outputs: dict[str, _StoredOutput] = msgspec.field(default_factory=dict[str, _StoredOutput])


async def announce(
    tx: Tx, who: Principal, module_id: str, *, serial: int, lineage: str, md5: str, is_forced: bool
) -> StateUpload:
    """Announce a state. Its writer must hold the lock of the module, unless that was removed by force: then the state is kept aside."""
    module, _ = await writing.find(tx, who, module_id)
    lock_id = await writing.lock_of_writer(tx, who, module)
    made = StateUpload(
        id=ids.new("sup"),
        module_id=module.id,
        created_by=who.id,
        credential_id=who.credential_id or "",
        created_at=tx.moment,
        serial=serial,
        lineage=lineage,
        md5=md5,
        is_forced=is_forced,
        lock_id=lock_id,
    )
    await store.insert_upload(tx, made)
    await store.forget_uploads(tx, made, tx.now - KEPT_SECONDS, MAX_ANNOUNCED)
    return made


async def upload(tx: Tx, who: Principal, upload_id: str) -> StateUpload:
    """Return an announcement of the caller, made with the same credential."""
    found = await store.upload(tx, upload_id)
    unseen = NotFound(f"there is no upload of a state {upload_id[:50]}")
    if found is None or (found.created_by, found.credential_id) != (who.id, who.credential_id):
        raise unseen
    await modules.find(tx, who, found.module_id, Verb.TREE_READ, unseen)
    return found


async def require_arrived(tx: Tx, lock: ModuleLock) -> None:
    """Refuse to release a lock while a state is on its way that was announced under it: without the lock it would be refused."""
    if await store.is_upload_open(tx, lock.id, tx.now - ARRIVAL_SECONDS):
        raise Conflict(
            "the workspace stays locked, because its latest state version is still pending: it was announced, and has not "
            f"arrived. If it never does, unlock the workspace after {ARRIVAL_SECONDS:.0f} seconds, or by force"
        )


async def receive(
    staging: Staging, bodies: StateBodies, who: Principal, upload_id: str, body: AsyncIterator[bytes]
) -> State:
    """Write an announced state. The same upload may be repeated."""
    found = await staging.db.read(lambda tx: upload(tx, who, upload_id))
    staging.disk.require()
    async with bodies.received(body, MAX_STATE_BYTES) as plain:
        return await _write(staging, who, found, plain)


async def write_encoded(staging: Staging, who: Principal, found: StateUpload, encoded: str) -> State:
    """Write a state that came with its announcement, as older command lines send it."""
    try:
        plain = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid.in_field("state", "it is not base64") from None
    return await _write(staging, who, found, plain)


async def _write(staging: Staging, who: Principal, found: StateUpload, plain: bytes) -> State:
    try:
        made = await _write_announced(staging, who, found, plain)
    except TerracrewError as error:
        if not error.is_transient:
            await staging.db.write(lambda tx: store.refuse_upload(tx, found.id))
        raise
    await staging.db.write(lambda tx: store.fill_upload(tx, found.id, made.id))
    return made


async def _write_announced(staging: Staging, who: Principal, found: StateUpload, plain: bytes) -> State:
    digest = await asyncio.to_thread(lambda: hashlib.md5(plain, usedforsecurity=False).hexdigest())
    if digest != found.md5:
        raise Invalid(f"the state did not arrive whole: its MD5 is {digest}, and {found.md5[:40]} was announced")
    given = await asyncio.to_thread(importing.read, plain)
    if given.serial != found.serial or (found.lineage and given.lineage != found.lineage):
        raise Invalid("the state has another serial or another lineage than was announced")
    how = StateWrite(is_forced=found.is_forced, client_lock_id=found.lock_id or found.id)
    return await writing.write(staging, who, found.module_id, given, how)


async def current(tx: Tx, who: Principal, module_id: str) -> State | None:
    module = await modules.find(tx, who, module_id, Verb.STATE_READ)
    kept = await state_store.current(tx, module.id)
    return None if kept is None else kept.state


async def state(tx: Tx, who: Principal, state_id: str) -> State:
    return (await quarantine.find(tx, who, state_id, Verb.STATE_READ)).state


async def read(staging: Staging, who: Principal, state_id: str) -> bytes:
    """Return the content of a state. That it was read is in the audit log, because it may contain passwords."""

    async def work(tx: Tx) -> StoredState:
        kept = await quarantine.find(tx, who, state_id, Verb.STATE_READ)
        details = {"module": kept.state.module_id, "version": kept.state.version}
        await audit.record(tx, who, "state.read", "state", kept.state.id, details)
        return kept

    kept = await staging.db.write(work)
    return (await content.read(staging.objects, staging.keys, kept.context, kept.sealed)).content


async def outputs(staging: Staging, who: Principal, state_id: str) -> list[OutputOfState]:
    """Return the outputs that stand in a state, sensitive ones included."""
    plain = await read(staging, who, state_id)
    try:
        found = await asyncio.to_thread(msgspec.json.decode, plain, type=_StoredOutputs)
    except (msgspec.MsgspecError, RecursionError):
        raise Invalid("the outputs of this state cannot be read: its engine has encrypted it") from None
    return [OutputOfState(name, each.value, each.type, each.sensitive) for name, each in sorted(found.outputs.items())]


async def words_of_lock(tx: Tx, module_id: str) -> str:
    """Say who holds the lock of a module, in the words by which the clients choose their message."""
    lock = await locks.holder(tx, module_id)
    if lock is not None:
        return f"the workspace is locked by User {lock.holder_name}"
    return "the workspace is locked by Run" if await jobs.lock(tx, module_id) else "the workspace is not locked"
