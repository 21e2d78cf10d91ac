"""Counts the waiting jobs of the whole database by their reasons, for metrics. It reads in the background, and sets instead of
single jobs."""

from typing import get_args

import msgspec

from terracrew.api.job_views import Reason
from terracrew.api.jobs import TERMINAL, JobStatus
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import queue_reads, store
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.scheduling import explain

MAX_ROUTES = 100
"""The most routes for which the reason is determined why no runner takes their jobs. Jobs of further routes count as `other`."""
REASONS: tuple[str, ...] = (*get_args(Reason.__annotations__["code"]), "other")


class Backlog(msgspec.Struct, frozen=True):
    jobs: dict[str, int]
    """The number of jobs that have not ended, by status."""
    waiting: dict[str, int]
    """The number of waiting jobs, by the code of the reason."""
    oldest_queued_at: float | None
    oldest_approval_at: float | None
    attempts_lost: int
    modules_in_doubt: int
    states_quarantined: int
    now: float


async def backlog(tx: Tx, registry: Registry, precedence: Precedence = "online") -> Backlog:
    jobs = {status.value: 0 for status in JobStatus if status not in TERMINAL}
    waiting = dict.fromkeys(REASONS, 0)
    oldest_queued_at = None
    for row in await queue_reads.counts_by_status(tx):
        jobs[row["status"]] = row["jobs"]
        if row["status"] == JobStatus.QUEUED:
            oldest_queued_at = row["oldest"]
    if jobs[JobStatus.QUEUED]:
        await _count_queued(tx, registry, precedence, waiting)
    oldest_approval_at = await _count_approvals(tx, waiting)
    facts = await queue_reads.trouble_counts(tx)
    assert facts is not None
    waiting["lost"] = facts["lost"]
    return Backlog(
        jobs=jobs,
        waiting=waiting,
        oldest_queued_at=oldest_queued_at,
        oldest_approval_at=oldest_approval_at,
        attempts_lost=facts["lost"],
        modules_in_doubt=facts["doubts"],
        states_quarantined=facts["quarantined"],
        now=tx.now,
    )


async def _count_queued(tx: Tx, registry: Registry, precedence: Precedence, waiting: dict[str, int]) -> None:
    """Count queued jobs by reason. SQL finds reasons in the modules; reasons in the runners are determined for one job of each route."""
    rows = await queue_reads.queued_by_route(tx)
    asked = [row["job_id"] for row in rows if not row["reason"]][:MAX_ROUTES]
    found = await explain.why_each(tx, await store.get_many(tx, asked), registry, precedence=precedence)
    for row in rows:
        reason = row["reason"]
        if not reason and row["job_id"] in found:
            reason = found[row["job_id"]].code
        waiting[reason or "other"] += row["jobs"]


async def _count_approvals(tx: Tx, waiting: dict[str, int]) -> float | None:
    """Count the plans that wait for a person. Returns when the oldest of them was made."""
    oldest = None
    for row in await queue_reads.awaiting_approval(tx):
        waiting["in_doubt" if row["is_in_doubt"] else "approval"] = row["jobs"]
        oldest = row["oldest"] if oldest is None else min(oldest, row["oldest"])
    return oldest
