"""Compares two states of a module: which resources and outputs were added, changed or removed, by attribute."""

import msgspec

from terracrew.api.states import State
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.plan_diff.document import DiffPage, DiffQuery
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.objects import Objects
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content, quarantine, store
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.state.store import StoredState

MAX_COMPARED_BYTES = 4 << 20
"""A larger state is not compared, because that takes a processor for many seconds."""


class StateComparison(msgspec.Struct, frozen=True):
    before: State
    after: State
    diff: DiffPage


async def read(
    db: Database,
    objects: Objects,
    keys: Keyring,
    diffs: DiffProcess,
    who: Principal,
    reference: str,
    other: str | None,
    query: DiffQuery,
) -> StateComparison:
    """Compare a state with another one of its module, by default with the version before it. Both count as read."""

    async def work(tx: Tx) -> tuple[StoredState, StoredState]:
        after = await quarantine.find(tx, who, reference, Verb.STATE_READ)
        if other is None:
            before = await store.version_before(tx, after.state)
            if before is None:
                raise NotFound(f"there is no version before state {after.state.id} that is still stored")
        else:
            before = await quarantine.find(tx, who, other, Verb.STATE_READ)
        if before.state.module_id != after.state.module_id:
            raise Conflict("both states must be of the same module")
        for each in (before, after):
            details = {"module": each.state.module_id, "version": each.state.version}
            await audit.record(tx, who, "state.read", "state", each.state.id, details)
        return before, after

    before, after = await db.write(work)
    for each in (before, after):
        if each.state.size > MAX_COMPARED_BYTES:
            raise Invalid(
                f"state {each.state.id} has {each.state.size:,} bytes: at most {MAX_COMPARED_BYTES:,} are compared. "
                "Download both states and compare them where they are needed"
            )
    pair = before.state.id, after.state.id
    document = diffs.kept(*pair)
    if document is None:
        async with diffs.turn(who):
            document = diffs.kept(*pair)  # somebody else may have asked for the same while this request waited
            if document is None:
                old = (await content.read(objects, keys, before.context, before.sealed)).content
                new = (await content.read(objects, keys, after.context, after.sealed)).content
                document = await diffs.compare(pair, old, new)
    return StateComparison(before.state, after.state, await diffs.page(who, document, query))
