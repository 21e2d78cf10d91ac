"""States in quarantine: a person decides whether each describes the real resources, and nothing is planned before that."""

import msgspec

from terracrew import ids
from terracrew.api.states import State
from terracrew.errors import Conflict, Locked, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.db.topics import FreedKey
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import reads, store
from terracrew.server.tree.modules import lock_store
from terracrew.server.tree.modules import service as modules

_KEPT_ELSEWHERE = (
    "the module keeps its state in a backend of its own: if it is needed, push it there, and then discard it here"
)


async def find(tx: Tx, who: Principal, reference: str, verb: Verb) -> store.StoredState:
    """Return a state by its id. The caller must have the right to do `verb` with it."""
    kept = await store.get(tx, ids.parse("sta", reference))
    unseen = NotFound(f"there is no state {reference} here, or you may not see it")
    if kept is None:
        raise unseen
    await modules.find(tx, who, kept.state.module_id, verb, unseen)
    return kept


def obstacle(problem: str, backend: str) -> str:
    """Return why a state in quarantine can be downloaded and discarded, but not adopted; '' if it can be adopted."""
    if problem:
        return problem
    return "" if backend == "terracrew" else _KEPT_ELSEWHERE


async def adopt(tx: Tx, who: Principal, reference: str) -> State:
    """Make it the current state. The module's lock must be free, so none of its jobs may be active."""
    state = (await find(tx, who, reference, Verb.STATE_WRITE)).state
    module = await modules.find(tx, who, state.module_id, Verb.STATE_WRITE)
    if why := obstacle(state.problem, module.backend):
        raise Conflict(f"state {state.id} cannot be adopted: {why}. It can be downloaded and discarded")
    version = await store.supersede(tx, state.module_id)
    holder = await reads.lock_holder(tx, state.module_id)
    if holder is not None:
        raise Locked(f"job {holder['number']} has the module's lock: adopt this state when it has ended", **holder)
    await lock_store.require_free(tx, module.id, module.path, (who.id, who.credential_id))
    return await _decide(
        tx, who, "state.adopt", state, msgspec.structs.replace(state, status="current", version=version)
    )


async def discard(tx: Tx, who: Principal, reference: str) -> State:
    """Discard it. It can still be downloaded, but no longer blocks the module."""
    state = (await find(tx, who, reference, Verb.STATE_WRITE)).state
    return await _decide(tx, who, "state.discard", state, msgspec.structs.replace(state, status="discarded"))


async def _decide(tx: Tx, who: Principal, action: str, before: State, after: State) -> State:
    if not await store.decide(tx, after):
        raise Conflict(f"state {after.id} is not in quarantine: it is {before.status}", status=before.status)
    details = {"module": after.module_id, "serial": after.serial, "version": after.version}
    own = (await modules.find(tx, who, after.module_id, Verb.STATE_WRITE)).organization_id
    await audit.record(tx, who, action, "state", after.id, details, organization_id=own)
    tx.wake("states", after.module_id)
    tx.wake("jobs", after.job_id)
    tx.wake(
        "freed", FreedKey(after.job_id, after.module_id).encode()
    )  # what waits on the module may be able to run now
    return after
