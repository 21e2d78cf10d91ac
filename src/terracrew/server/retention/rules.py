"""What retention removes: for each kind, `find` returns what is due, and `remove` removes a batch of it in one transaction."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from terracrew.api.operations import RetentionPolicy
from terracrew.server.audit import store as audit
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.topics import log_of
from terracrew.server.jobs.plans import diff_store, json_store
from terracrew.server.logs import object_reads
from terracrew.server.logs import store as logs
from terracrew.server.retention import store
from terracrew.server.retention.policy import DAY_SECONDS, Item, newest_id
from terracrew.server.state import reads as state_reads
from terracrew.server.state import store as states
from terracrew.server.tree.modules import reads as module_reads
from terracrew.server.tree.modules import store as modules

GRACE_SECONDS = 7 * DAY_SECONDS
"""New archives are kept for this time, because an archive is uploaded before the module or the job that uses it is created."""
Find = Callable[[Tx, RetentionPolicy, Item | None, int], Awaitable[list[Item]]]
"""Returns up to this many items that are due, after the given one in the order of their ids."""
Remove = Callable[[Tx, RetentionPolicy, list[Item]], Awaitable[list[Item]]]
"""Removes the items that are still due, and returns them."""


class RetentionRule(NamedTuple):
    kind: str
    find: Find
    remove: Remove


async def _find_logs(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    """Return logs that are completely in the object store. The log of an attempt in doubt is kept."""
    if policy.logs_days is None:
        return []
    before = tx.now - policy.logs_days * DAY_SECONDS
    start = (after.id, after.number) if after else ("", 0)
    return rows_to(Item, await object_reads.removable(tx, start, newest_id("job", before), before, limit))


async def _remove_logs(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:
    """Remove logs with the diffs and the JSON of their plans. A line replaces a log that was removed (`logs/moved.Removal`)."""
    removed: list[Item] = []
    for item in items:
        if not await logs.set_removed(tx, item.id, item.number, policy.logs_days):
            continue  # something was delivered meanwhile, or the module was deleted
        await store.delete_later(tx, await logs.delete_objects(tx, item.id, item.number))
        await store.delete_later(tx, await diff_store.delete_of_job(tx, item.id))
        await store.delete_later(tx, await json_store.delete_of_job(tx, item.id))
        tx.wake(log_of(item.id))
        removed.append(item)
    return removed


async def _find_states(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    """Return old states of jobs that have ended, but never the current one, one in quarantine, or one of the newest of a module."""
    if policy.states_days is None:
        return []
    before = tx.now - policy.states_days * DAY_SECONDS
    start, count = after.id if after else "", max(1, policy.states_count)
    return rows_to(Item, await state_reads.removable(tx, start, newest_id("sta", before), before, count, limit))


async def _remove_states(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:  # noqa: ARG001 - all rules have it
    removed = rows_to(Item, await states.delete_old(tx, [item.id for item in items]))
    await store.delete_later(tx, [item.object for item in removed if item.object])
    return removed


def _needed_since(tx: Tx, policy: RetentionPolicy) -> float:
    """Return the time before which a job must have ended so that its archive is no longer needed."""
    return -1.0 if policy.archives_days is None else tx.now - policy.archives_days * DAY_SECONDS


async def _find_archives(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    """Return archives that nothing refers to, and those whose jobs ended long ago."""
    start = after.id if after else ""
    rows = await module_reads.unused(tx, start, tx.now - GRACE_SECONDS, _needed_since(tx, policy), limit)
    return rows_to(Item, rows)


async def _remove_archives(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:
    """Remove unused archives. Each row is locked and checked again, because creating a module or a job with it locks the row, too."""
    removed: list[Item] = []
    for item in items:
        if await module_reads.hold_unused(tx, item.id, tx.now - GRACE_SECONDS, _needed_since(tx, policy)):
            await modules.delete_archive(tx, item.id)
            removed.append(item)
    await store.delete_later(tx, [f"archives/{item.id}" for item in removed])
    return removed


async def _find_entries(tx: Tx, policy: RetentionPolicy, after: Item | None, limit: int) -> list[Item]:
    if policy.audit_days is None:
        return []
    before = tx.now - policy.audit_days * DAY_SECONDS
    return rows_to(Item, await audit.older(tx, after.id if after else "", newest_id("aud", before), before, limit))


async def _remove_entries(tx: Tx, policy: RetentionPolicy, items: list[Item]) -> list[Item]:  # noqa: ARG001 - all rules have it
    await audit.delete_batch(tx, [item.id for item in items])
    return items


RULES = (
    RetentionRule("logs", _find_logs, _remove_logs),
    RetentionRule("states", _find_states, _remove_states),
    RetentionRule("archives", _find_archives, _remove_archives),
    RetentionRule("audit", _find_entries, _remove_entries),
)
