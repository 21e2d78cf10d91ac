"""A pass of retention: it removes everything that is due in small batches, and records in the audit log what was removed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

import msgspec

from terracrew.api.operations import LastRun, RetentionPolicy, Tally
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements import fragments
from terracrew.server.principals.model import SYSTEM
from terracrew.server.retention import store
from terracrew.server.retention.policy import tally
from terracrew.server.retention.rules import RULES, RetentionRule

BATCH_ITEMS = 200
"""The most items that one transaction removes; fewer if they have more than `fragments.MAX_BATCH_BYTES` together."""
PAUSE_SECONDS = 0.02
_PREVIEW_ITEMS = 2000
Renew = Callable[[], Awaitable[bool]]


async def remove_due(db: Database, policy: RetentionPolicy, renew: Renew) -> dict[str, Tally]:
    """Remove what is due, as long as `renew` returns that this server still holds the lease."""
    removed: dict[str, Tally] = {}
    for rule in RULES:
        total, after = Tally(), None
        while await renew():
            items = await db.read_in_background(lambda tx, after=after: rule.find(tx, policy, after, BATCH_ITEMS))  # noqa: B023
            if not items:
                break
            batch = fragments.leading(items, lambda item: item.bytes)
            total += tally(await db.write(lambda tx, batch=batch: rule.remove(tx, policy, batch)))  # noqa: B023
            after = batch[-1]
            await asyncio.sleep(PAUSE_SECONDS)
        if total.count:
            removed[rule.kind] = total
    return removed


async def preview(db: Database, policy: RetentionPolicy, rule: RetentionRule) -> Tally:
    """Return how much of a kind is due."""
    total, after = Tally(), None
    while items := await db.read_in_background(lambda tx, after=after: rule.find(tx, policy, after, _PREVIEW_ITEMS)):
        total += tally(items)
        after = items[-1]
    return total


async def last_runs(tx: Tx) -> dict[str, LastRun]:
    """Return the last run of each chore (`pass`, `sweep`) by its name."""
    rows = await store.last_runs(tx)
    return {
        row["name"]: LastRun(
            datetime.fromtimestamp(row["finished_at"], UTC), msgspec.json.decode(row["removed"], type=dict[str, Tally])
        )
        for row in rows
    }


async def record(db: Database, name: str, server_id: str, removed: Mapping[str, Tally]) -> None:
    """Record that a chore has ended, and write an entry of the audit log if it removed anything."""

    async def work(tx: Tx) -> None:
        await store.record_run(tx, name, msgspec.json.encode(removed).decode())
        if removed:
            details = {kind: msgspec.to_builtins(found) for kind, found in removed.items()}
            await audit.record(tx, SYSTEM, f"retention.{name}", "server", server_id, details)

    await db.write(work)
