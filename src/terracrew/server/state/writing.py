"""States that an engine at a terminal writes, under the lock that its person holds.

Each one is a new version, like those that jobs write. What a person writes whose lock was removed by force is kept in quarantine, and
so is what the holder of a lock writes who has lost the right to: the resources exist in any case.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from terracrew import ids
from terracrew.api.locks import ModuleLock
from terracrew.api.modules import Module
from terracrew.api.states import State
from terracrew.errors import Conflict, Forbidden, Locked
from terracrew.protocol.events import StateFact
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import content, importing, locks, store
from terracrew.server.state.importing import ReadState
from terracrew.server.state.model import Received
from terracrew.server.tree.modules import lock_store
from terracrew.server.tree.modules import service as modules
from terracrew.server.tree.modules import store as module_store
from terracrew.server.uploads import service as uploads
from terracrew.server.uploads.service import Staging

MAX_LATE_STATES = 32
"""How many states of one person without a lock are kept in quarantine for a module: somebody has to decide about each of them."""


class StateWrite(msgspec.Struct, frozen=True):
    """How a state is written."""

    is_forced: bool = False
    """Also if it does not continue the current one."""
    is_intermediate: bool = False
    """Whether the engine is in the middle of a change. If the lock ends after such a state, the module is in doubt."""
    client_lock_id: str | None = None
    """The id of the lock, if the client knows it. The principal and the credential must be those of the lock in any case."""


class Writable(NamedTuple):
    module: Module
    is_allowed: bool
    """Whether the caller has the right to write states. Otherwise, the caller holds the lock and has lost that right."""


async def find(tx: Tx, who: Principal, reference: str) -> Writable:
    """Return a module whose states the caller writes. The holder of its lock may be somebody who can only see it by now."""
    try:
        return Writable(await importing.find(tx, who, reference), is_allowed=True)
    except Forbidden:
        module = await modules.find(tx, who, reference, Verb.TREE_READ)
        lock = await lock_store.get(tx, module.id)
        if lock is None or not locks.is_holder(lock, who) or not importing.is_possible(module):
            raise
        return Writable(module, is_allowed=False)


async def lock_of_writer(tx: Tx, who: Principal, module: Module) -> str:
    """Return the id of the lock under which the caller writes: the one that it holds, or its last one that was removed by force."""
    lock = await lock_store.get(tx, module.id)
    if lock is not None and locks.is_holder(lock, who):
        return lock.id
    removed = await lock_store.last_removed(tx, module.id, who.id, who.credential_id or "")
    if removed is None:
        raise _not_held(module, lock)
    return removed


async def write(staging: Staging, who: Principal, reference: str, given: ReadState, how: StateWrite) -> State:
    """Make a state the current one of a module. The caller and its credential must hold the lock.

    `importing.read` makes a `ReadState` of what was sent. Raises Locked if the caller does not hold the lock; if the lock was removed by
    force, or it has lost the right to write states, the state is kept in quarantine before that.
    """
    staging.disk.require()
    module, is_allowed = await staging.db.read(lambda tx: find(tx, who, reference))
    state_id = ids.new("sta")
    name = content.of_event(state_id, 0, 0, given.sha256)
    sealed = await content.keep(staging.objects, staging.keys, module.id, name, given.plain)
    received = Received(_fact(given), sealed.content, sealed.object)
    made = await uploads.write_row(
        staging, sealed.object, lambda tx: _write(tx, who, module.id, state_id, given, received, how)
    )
    if made.id != state_id and sealed.object is not None:
        await staging.objects.delete(sealed.object)
    if made.status == "quarantined":
        why = (
            f"your lock of `{module.path}` was removed by force"
            if is_allowed
            else f"you may no longer write states of `{module.path}`"
        )
        raise Locked(
            f"{why}, so this state did not become the current one. It is kept in "
            f"quarantine: look at it, and adopt or discard it (`terracrew state list {module.path} --quarantined`)",
            state_id=made.id,
        )
    return made


def _fact(given: ReadState) -> StateFact:
    return StateFact(
        given.sha256, len(given.plain), given.serial, given.lineage, is_inline=True, resources=given.resources
    )


async def _write(
    tx: Tx, who: Principal, module_id: str, state_id: str, given: ReadState, received: Received, how: StateWrite
) -> State:
    await module_store.lock(tx, module_id)
    module, is_allowed = await find(tx, who, module_id)
    found = await store.current(tx, module.id)
    now = None if found is None else found.state
    lock = await lock_store.get(tx, module.id)
    if lock is None or not is_allowed or not _is_own(lock, who, how):
        return await _keep_late(tx, who, module, state_id, given, received, how, lock)
    if now is not None and now.sha256 == given.sha256:
        await lock_store.note_write(tx, module.id, is_intermediate=how.is_intermediate)
        return (
            now  # the answer to the first request was lost, or the engine writes at its end what it has written before
        )
    if now is not None and not how.is_forced:
        importing.check_successor(module.path, now, given)
    version = await store.supersede(tx, module.id)
    made = _state(tx, who, module, state_id, given, version)
    await store.insert(tx, made, received)
    await lock_store.note_write(tx, module.id, is_intermediate=how.is_intermediate)
    details = {"path": module.path, "serial": made.serial, "lineage": made.lineage, "version": version}
    if how.is_forced and now is not None:
        details |= {"force": True, "replaced_version": now.version, "replaced_lineage": now.lineage}
    await _record(tx, who, "state.write", module, made, details)
    return made


def _is_own(lock: ModuleLock, who: Principal, how: StateWrite) -> bool:
    is_named = how.client_lock_id is None or how.client_lock_id in (lock.client_lock_id, lock.id)
    return is_named and locks.is_holder(lock, who)


async def _keep_late(
    tx: Tx,
    who: Principal,
    module: Module,
    state_id: str,
    given: ReadState,
    received: Received,
    how: StateWrite,
    lock: ModuleLock | None,
) -> State:
    """Keep a state in quarantine whose writer's lock was removed by force, or who holds it without the right to write states.

    The states of everybody else are refused.
    """
    known = await store.late_states(tx, module.id, who.id)
    if any(each.sha256 == given.sha256 for each in known):
        return next(each for each in known if each.sha256 == given.sha256)
    is_own = lock is not None and _is_own(lock, who, how)
    if not is_own and not await lock_store.was_removed(
        tx, module.id, who.id, who.credential_id or "", how.client_lock_id
    ):
        raise _not_held(module, lock)
    if len(known) >= MAX_LATE_STATES:
        raise Conflict(
            f"{MAX_LATE_STATES} states that you have written without a lock are in quarantine: adopt or discard them first "
            f"(`terracrew state list {module.path} --quarantined`)"
        )
    made = _state(tx, who, module, state_id, given, None)
    await store.insert(tx, made, received)
    details = {"path": module.path, "serial": made.serial, "lineage": made.lineage}
    await _record(tx, who, "state.write_late", module, made, details)
    return made


def _not_held(module: Module, lock: ModuleLock | None) -> Locked:
    if lock is not None:
        return lock_store.locked(module.path, lock)
    return Locked(
        f"you do not hold the lock of `{module.path}`, so you cannot write its state: lock it first. Engines do so unless they "
        "are told not to (`-lock=false`)"
    )


def _state(tx: Tx, who: Principal, module: Module, state_id: str, given: ReadState, version: int | None) -> State:
    return State(
        id=state_id,
        module_id=module.id,
        status="quarantined" if version is None else "current",
        job_id=state_id,
        attempt=0,
        event=0,
        origin="terminal",
        serial=given.serial,
        lineage=given.lineage,
        sha256=given.sha256,
        size=len(given.plain),
        created_at=tx.moment,
        version=version,
        brought_by=who.id,
    )


async def _record(
    tx: Tx, who: Principal, action: str, module: Module, made: State, details: Mapping[str, object]
) -> None:
    details = {"module": module.id, **details}
    await audit.record(tx, who, action, "state", made.id, details, organization_id=module.organization_id)
    tx.wake("states", module.id)
    tx.wake("tree", module.id)
