"""Says what a change of a job contributes to the figures, and writes it in the transaction of the change."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from terracrew.api.failures import class_of
from terracrew.api.jobs import Job
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Tx
from terracrew.server.figures import store


class CountedChange(NamedTuple):
    """A job before and after a change that contributes to the figures."""

    before: Job | None
    """None for a job that is written for the first time."""
    after: Job
    failed_step: Step | None = None
    """The step that failed, of a job that failed without a kind of failure."""


def counts(before: Job | None, after: Job) -> bool:
    """Return whether a change contributes: the job ends, or an attempt of it releases its slot."""
    is_end = after.is_terminal and (before is None or not before.is_terminal)
    return is_end or (before is not None and before.is_active and not after.is_active)


async def append(tx: Tx, changes: Sequence[CountedChange]) -> None:
    """Write what these changes contribute. Each of them must have been saved by compare-and-set in this transaction."""
    rows = [_row(each, tx.moment) for each in sorted(changes, key=lambda each: each.after.id)]
    if rows:
        await store.append(tx, rows)


def _row(change: CountedChange, now: datetime) -> tuple[str | int | float | bool | None, ...]:
    before, after = change.before, change.after
    is_released = before is not None and before.is_active and not after.is_active
    # A job that is queued again has lost the times of its attempt; one that has ended may have got them with this change.
    owner = before if before is not None and after.status == "QUEUED" else after
    since = owner.claimed_at if is_released else None
    has_started = is_released and owner.started_at is not None
    wait = max(0.0, (owner.started_at - owner.queued_at).total_seconds()) if has_started and owner.started_at else None
    is_end = after.is_terminal
    found = class_of(after.status, after.failure_kind, change.failed_step) if is_end else None
    return (
        after.id,
        after.attempt if before is None else before.attempt,
        after.status.value,
        now.timestamp(),
        is_end,
        found or "",
        None if since is None else min(since, now).timestamp(),
        wait,
        after.module_id,
        owner.runner_id if is_released else None,
    )
