"""The locks of modules that people hold: they are taken and released by hand, or by an engine at a terminal.

A module has one holder at most: the attempt of its active job, or a person. The row of the module decides between them: whoever
takes the lock holds that row, and so does a claim (`jobs/attempts/claim_store.hold_grants`).
"""

from collections.abc import Mapping, Sequence

import msgspec

from terracrew import ids
from terracrew.api.locks import ModuleLock, TakeLock
from terracrew.api.modules import Module
from terracrew.errors import Conflict, Forbidden, Locked, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.topics import FreedKey
from terracrew.server.history import store as history_store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.state import reads, store
from terracrew.server.tree.modules import lock_store
from terracrew.server.tree.modules import service as modules
from terracrew.server.tree.modules import store as module_store
from terracrew.wording import lock_words

PLAN_OPERATION = "OperationTypePlan"
"""What engines call an operation that changes nothing."""


async def holder(tx: Tx, module_id: str) -> ModuleLock | None:
    """Return the lock of a module, if a person holds it."""
    return await lock_store.get(tx, module_id)


async def doubt(tx: Tx, module_id: str) -> str:
    """Return how the lock of a person ended, if not in order and no state was written since; otherwise an empty text."""
    return (await store.version_facts(tx, module_id)).lock_doubt


async def of_waiting(tx: Tx, waiting: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the locks of the modules of these jobs (job, module); `waiting` is the job."""
    return await lock_store.of_waiting(tx, waiting)


async def find(tx: Tx, who: Principal, reference: str) -> ModuleLock | None:
    """Return the lock of a module that the caller may see, if a person holds it."""
    return await holder(tx, (await modules.find(tx, who, reference, Verb.TREE_READ)).id)


async def take(tx: Tx, who: Principal, reference: str, asked: TakeLock) -> ModuleLock:
    """Lock a module for the caller and its credential. Nobody may hold the lock, and no job may be active."""
    module = await modules.find(tx, who, reference, Verb.STATE_WRITE)
    if who.kind not in ("user", "service_account") or who.credential_id is None or who.credential is None:
        raise Forbidden("only a person or a service account can hold the lock of a module")
    if (module := await _hold(tx, module)) is None:
        raise NotFound(f"module `{reference}` has just been deleted")
    await authorize.require(tx, who, Verb.STATE_WRITE, modules.place(module))
    found = await lock_store.get(tx, module.id)
    if found is not None:
        if is_holder(found, who) and asked.client_lock_id and found.client_lock_id == asked.client_lock_id:
            return found  # the answer to the first request was lost
        raise lock_store.locked(module.path, found)
    job = await reads.lock_holder(tx, module.id)
    if job is not None:
        raise Locked(
            f"job {job['number']} has the lock of `{module.path}`: lock the module when it has ended",
            number=job["number"],
        )
    if (await store.version_facts(tx, module.id)).has_quarantine:
        raise Conflict(
            f"a state of `{module.path}` is in quarantine: adopt or discard it first "
            f"(`terracrew state list {module.path} --quarantined`)"
        )
    if await history_store.is_held(tx, module.id):
        raise Conflict(
            f"`{module.path}` is held since the server's database was set back: an administrator has to release it first"
        )
    lock = await lock_store.insert(
        tx,
        ModuleLock(
            **msgspec.structs.asdict(asked),
            id=ids.new("lck"),
            module_id=module.id,
            holder_id=who.id,
            holder_kind="user" if who.kind == "user" else "service_account",
            holder_name=who.name,
            credential_id=who.credential_id,
            credential=who.credential,
            created_at=tx.moment,
        ),
    )
    await _record(tx, who, "module.lock", module, {"reason": lock.reason, "operation": lock.operation})
    return lock


async def release(tx: Tx, who: Principal, reference: str, client_lock_id: str | None = None) -> ModuleLock:
    """Release a lock in order, with the credential that it was taken with. Returns the lock that it was.

    Its holder may do so without any other right. `client_lock_id`: only the lock with this id.
    """
    module, found = await _held(tx, who, reference, Verb.STATE_WRITE)
    if not is_holder(found, who):
        raise lock_store.locked(module.path, found)
    _check_id(module, found, client_lock_id)
    doubtful = ""
    if found.is_last_intermediate:
        doubtful = f"{_words(found)} unlocked the module after a state that was written in the middle of a change"
    await _remove(tx, module, doubtful)
    if found.writes and not doubtful:
        await module_store.end_doubt(tx, module.id)
    await _record(tx, who, "module.unlock", module, {"states": found.writes})
    return found


async def force(
    tx: Tx, who: Principal, reference: str, reason: str = "", client_lock_id: str | None = None
) -> ModuleLock:
    """Remove a lock that is not released in order. Its holder may, and those who may give up a lost attempt.

    What the holder writes afterwards does not become current. If an engine was at work, nobody knows whether it has ended.
    """
    module, found = await _held(tx, who, reference, Verb.JOB_CANCEL)
    _check_id(module, found, client_lock_id)
    doubtful = ""
    if found.writes or found.operation not in ("", PLAN_OPERATION):
        doubtful = f"the lock that {_words(found)} held was removed by force"
    await _remove(tx, module, doubtful)
    await lock_store.remember(tx, found, who.name)
    details = {"holder": found.holder_name, "holder_id": found.holder_id, "reason": reason, "states": found.writes}
    await _record(tx, who, "module.force_unlock", module, details)
    return found


async def remove_outdated(tx: Tx, module_id: str, organization_id: str, before: float) -> bool:
    """Remove a lock that was taken before this time, when a job is known to have been claimed later: the database was set back to a
    time at which the lock was held. Returns whether nobody holds the lock now."""
    module = await module_store.hold(tx, module_id)
    found = await lock_store.get(tx, module_id)
    if module is None or found is None:
        return True
    if found.created_at.timestamp() > before:
        return False
    await _remove(tx, module, f"the lock that {_words(found)} held ended in a time that the database has lost")
    await lock_store.remember(tx, found, SYSTEM.name)
    details = {"holder": found.holder_name, "holder_id": found.holder_id, "path": module.path}
    await audit.record(tx, SYSTEM, "module.force_unlock", "module", module_id, details, organization_id=organization_id)
    return True


def is_holder(lock: ModuleLock, who: Principal) -> bool:
    """Return whether this is the principal that holds the lock, with the same credential."""
    return (lock.holder_id, lock.credential_id) == (who.id, who.credential_id)


def _words(lock: ModuleLock) -> str:
    return lock_words.holder(lock.holder_kind, lock.holder_name, lock.credential)


def _check_id(module: Module, found: ModuleLock, client_lock_id: str | None) -> None:
    if client_lock_id is not None and client_lock_id not in (found.client_lock_id, found.id):
        error = lock_store.locked(module.path, found)
        raise Locked(f"the lock has another id than the one that is to be removed: {error}", **error.details)


async def _held(tx: Tx, who: Principal, reference: str, verb: Verb) -> tuple[Module, ModuleLock]:
    """Return a module and its lock, and keep both from changing. Everybody but the holder needs the right to `verb`."""
    module = await _hold(tx, await modules.find(tx, who, reference, Verb.TREE_READ))
    if module is None:
        raise NotFound(f"module `{reference}` has just been deleted")
    found = await lock_store.get(tx, module.id)
    if found is None or found.holder_id != who.id:
        await authorize.require(tx, who, verb, modules.place(module))
    if found is None:
        raise NotFound(f"nobody holds the lock of `{module.path}`")
    return module, found


async def _hold(tx: Tx, module: Module) -> Module | None:
    """Lock the row of a module against claims, too (`store.lock` does not)."""
    return await module_store.hold(tx, module.id)


async def _remove(tx: Tx, module: Module, doubtful: str) -> None:
    await lock_store.delete(tx, module.id, doubtful)
    tx.wake("freed", FreedKey("", module.id).encode())


async def _record(tx: Tx, who: Principal, action: str, module: Module, details: Mapping[str, object]) -> None:
    shown = {"path": module.path} | {name: value for name, value in details.items() if value}
    await audit.record(tx, who, action, "module", module.id, shown, organization_id=module.organization_id)
    tx.wake("tree", module.id)
    tx.wake("states", module.id)
