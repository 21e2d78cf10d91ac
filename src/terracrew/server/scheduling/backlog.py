"""How many jobs wait and why, for the whole database: for metrics, so it is read in the background and by sets, not by job."""

from typing import get_args

import msgspec

from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, ENDED_STATUSES
from terracrew.server.jobs import store
from terracrew.server.jobs.model import TERMINAL, JobStatus, Reason
from terracrew.server.scheduling import explain

MAX_ROUTES = 100
"""For how many kinds of queued jobs it is found out why no runner takes them; those of the others count as `other`."""
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


async def backlog(tx: Tx, registry: Registry) -> Backlog:
    jobs = {status.value: 0 for status in JobStatus if status not in TERMINAL}
    waiting = dict.fromkeys(REASONS, 0)
    oldest_queued_at = None
    for row in await tx.all(
        f"""SELECT status, count(*) AS jobs, min(queued_at) AS oldest FROM jobs
        WHERE status NOT IN {ENDED_STATUSES} GROUP BY status"""
    ):
        jobs[row["status"]] = row["jobs"]
        if row["status"] == JobStatus.QUEUED:
            oldest_queued_at = row["oldest"]
    if jobs[JobStatus.QUEUED]:
        await _count_queued(tx, registry, waiting)
    oldest_approval_at = await _count_approvals(tx, waiting)
    facts = await tx.one(
        f"""SELECT (SELECT count(*) FROM states WHERE status = 'quarantined') AS quarantined,
            (SELECT count(DISTINCT jobs.module_id) FROM attempts JOIN jobs ON jobs.id = attempts.job_id
                WHERE attempts.is_in_doubt) AS doubts,
            (SELECT count(*) FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
                WHERE jobs.status IN {ACTIVE_STATUSES} AND attempts.lost_at IS NOT NULL) AS lost"""
    )
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


async def _count_queued(tx: Tx, registry: Registry, waiting: dict[str, int]) -> None:
    """What the module lacks is told by SQL. What the runners lack is asked for one job of each route, as its page does."""
    rows = await tx.all(
        f"""SELECT reason, group_id, engine, runner_id, runner_instance_name, own, is_first, min(id) AS job_id, count(*) AS jobs
        FROM (
            SELECT queued.id, modules.group_id, modules.engine, modules.runner_id, modules.runner_instance_name,
                CASE WHEN EXISTS (SELECT 1 FROM states
                        WHERE states.module_id = modules.id AND states.status = 'quarantined') THEN 'quarantine'
                    WHEN EXISTS (SELECT 1 FROM jobs AS busy
                        WHERE busy.module_id = modules.id AND busy.status IN {ACTIVE_STATUSES}) THEN 'module_busy'
                    ELSE '' END AS reason,
                CASE WHEN queued.plan_attempt IS NOT NULL THEN queued.id
                    WHEN EXISTS (SELECT 1 FROM assignments WHERE assignments.place_id = modules.id) THEN modules.id
                    ELSE '' END AS own,
                queued.place = 1 AS is_first
            FROM (
                SELECT id, module_id, plan_attempt, row_number() OVER (
                    PARTITION BY module_id ORDER BY priority DESC, queued_at, id) AS place
                FROM jobs WHERE status = 'QUEUED') AS queued
            JOIN modules ON modules.id = queued.module_id) AS found
        GROUP BY reason, group_id, engine, runner_id, runner_instance_name, own, is_first ORDER BY jobs DESC"""
    )
    asked = [row["job_id"] for row in rows if not row["reason"]][:MAX_ROUTES]
    found = await explain.why_each(tx, await store.get_many(tx, asked), registry)
    for row in rows:
        reason = row["reason"]
        if not reason and row["job_id"] in found:
            reason = found[row["job_id"]].code
        waiting[reason or "other"] += row["jobs"]


async def _count_approvals(tx: Tx, waiting: dict[str, int]) -> float | None:
    """Count the plans that wait for a person; returns when the oldest of them was made.

    The statement excludes the terminal statuses, too, because SQLite uses the partial index of open jobs only then.
    """
    oldest = None
    for row in await tx.all(
        f"""SELECT doubtful.module_id IS NOT NULL AS is_in_doubt, count(*) AS jobs, min(plans.made_at) AS oldest
        FROM jobs JOIN plans ON plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt
        LEFT JOIN (SELECT DISTINCT own.module_id FROM attempts JOIN jobs AS own ON own.id = attempts.job_id
            WHERE attempts.is_in_doubt) AS doubtful ON doubtful.module_id = jobs.module_id
        WHERE jobs.status NOT IN {ENDED_STATUSES} AND jobs.status = 'AWAITING_APPROVAL'
        GROUP BY doubtful.module_id IS NOT NULL"""
    ):
        waiting["in_doubt" if row["is_in_doubt"] else "approval"] = row["jobs"]
        oldest = row["oldest"] if oldest is None else min(oldest, row["oldest"])
    return oldest
