"""Rows of entries, which the ends of jobs append, and of the sums that they are folded into."""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Columns, Tx
from terracrew.server.figures import reads
from terracrew.server.figures.model import DAY_SECONDS, HOUR_SECONDS, Key, tally

MAX_FOLDED_ENTRIES = 2_000
"""How many entries one transaction folds. With SQLite, all other work waits for it."""
MAX_PRUNED_ROWS = 5_000
"""How many sums of each length of period one transaction deletes."""
KEPT_SECONDS: Mapping[int, int] = {HOUR_SECONDS: 9 * DAY_SECONDS, DAY_SECONDS: 40 * DAY_SECONDS}
"""How long the sums of each length of period are kept. The longest spans that are shown are a week of hours and a month of days."""
_APPENDED: Columns = {
    "job_id": "text",
    "attempt": "bigint",
    "status": "text",
    "at": "double precision",
    "is_end": "boolean",
    "failure_class": "text",
    "busy_since": "double precision",
    "wait_seconds": "double precision",
    "module_id": "text",
    "runner_id": "text",
}
_APPEND: LiteralString = """
INSERT INTO figure_entries (job_id, attempt, status, at, is_end, failure_class, busy_since, wait_seconds, organization_id, group_id,
    runner_group_id)
SELECT batch.job_id, batch.attempt, batch.status, batch.at, batch.is_end, batch.failure_class, batch.busy_since, batch.wait_seconds,
    modules.organization_id, modules.group_id, CASE WHEN runners.id IS NULL THEN '' ELSE coalesce(runners.group_id,
        (SELECT root.id FROM groups AS root WHERE root.organization_id = modules.organization_id AND root.path = '')) END
FROM batch JOIN modules ON modules.id = batch.module_id LEFT JOIN runners ON runners.id = batch.runner_id
WHERE true ON CONFLICT (job_id, attempt, status) DO NOTHING"""
_OLDEST: LiteralString = "FROM figure_entries ORDER BY job_id, attempt, status LIMIT :count FOR UPDATE SKIP LOCKED"
_DELETE: LiteralString = """DELETE FROM figure_entries
    WHERE (job_id, attempt, status) IN (SELECT job_id, attempt, status FROM batch)"""
_LEAVE: LiteralString = "UPDATE figure_entries SET group_id = :parent_id WHERE group_id = :group_id"
_LEAVE_AS_RUNNER: LiteralString = """UPDATE figure_entries SET runner_group_id = :parent_id
    WHERE runner_group_id = :group_id"""
_ENTRY_KEY: Columns = {"job_id": "text", "attempt": "bigint", "status": "text"}
_ADD: LiteralString = """
INSERT INTO figures (group_id, period_seconds, starts_at, kind, amount)
SELECT group_id, period_seconds, starts_at, kind, amount FROM batch WHERE true
ON CONFLICT (group_id, period_seconds, starts_at, kind) DO UPDATE SET amount = figures.amount + excluded.amount"""
_PRUNE: LiteralString = """DELETE FROM figures WHERE (group_id, period_seconds, starts_at, kind) IN (
    SELECT group_id, period_seconds, starts_at, kind FROM figures
    WHERE period_seconds = :period AND starts_at < :before LIMIT :count)"""
_SUMS: Columns = {
    "group_id": "text",
    "period_seconds": "bigint",
    "starts_at": "bigint",
    "kind": "text",
    "amount": "double precision",
}


async def append(tx: Tx, rows: Sequence[Sequence[str | int | float | bool | None]]) -> None:
    """Write entries, in the order of `_APPENDED`. They wait for no other transaction, because no two have the same key."""
    await tx.each(_APPEND, _APPENDED, rows)


async def fold(tx: Tx) -> bool:
    """Move entries into the sums, and return whether there may be more. Each entry is deleted in the transaction that adds it."""
    entries = await reads.ENTRIES.all(tx, _OLDEST, count=MAX_FOLDED_ENTRIES)
    if not entries:
        return False
    groups = {each.group_id for each in entries} | {each.runner_group_id for each in entries}
    await add(tx, tally(entries, await reads.ancestors(tx, groups)))
    await tx.each(_DELETE, _ENTRY_KEY, [(each.job_id, each.attempt, each.status) for each in entries])
    return len(entries) == MAX_FOLDED_ENTRIES


async def leave_group(tx: Tx, group_id: str, parent_id: str) -> None:
    """Let the entries of a group that is being deleted count for the group above. Those that were folded count there already."""
    for sql in (_LEAVE, _LEAVE_AS_RUNNER):
        await tx.run(sql, group_id=group_id, parent_id=parent_id)


async def add(tx: Tx, sums: Mapping[Key, float]) -> None:
    """Add amounts to the sums, in the order of their keys, so that two servers that do it do not wait for each other in a circle."""
    await tx.each(_ADD, _SUMS, [(*key, amount) for key, amount in sorted(sums.items())])


async def take_sample_time(tx: Tx) -> float | None:
    """Note that the capacity is sampled now, and return when that was done before; None the first time. It holds the row."""
    found = await tx.one("SELECT sampled_at FROM figure_samples WHERE id = 1 FOR UPDATE")
    await tx.run(
        "INSERT INTO figure_samples (id, sampled_at) VALUES (1, :now) ON CONFLICT (id) DO UPDATE SET sampled_at = excluded.sampled_at",
        now=tx.now,
    )
    return None if found is None else found["sampled_at"]


async def prune(tx: Tx) -> bool:
    """Delete the oldest sums, which nobody can be shown any more, and return whether there may be more of them.

    Those of groups that were deleted go in this way, too.
    """
    counts = [
        await tx.run(_PRUNE, period=period, before=int(tx.now) - kept, count=MAX_PRUNED_ROWS)
        for period, kept in KEPT_SECONDS.items()
    ]
    return MAX_PRUNED_ROWS in counts
