"""Rows of the jobs of the fleet, their steps and logs. Every write of a status is a compare-and-set."""

from collections.abc import Sequence

from terracrew.api.fleet_jobs import FleetJob, FleetLine, FleetStep
from terracrew.errors import NotFound, Superseded
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table, assignments, excluded_assignments, values
from terracrew.server.db.topics import log_of

FLEET_JOBS = Table("fleet_jobs", FleetJob)
FLEET_STEPS = Table("fleet_steps", FleetStep)
FLEET_LOG = Table("fleet_log", FleetLine)
_DECIDED = (
    "status",
    "attempt",
    "server_id",
    "lease_until",
    "due_at",
    "losses",
    "error",
    "canceled_at",
    "canceled_by",
    "is_unwinding",
    "claimed_at",
    "started_at",
    "finished_at",
)
"""The columns that may change after a job was created."""
_SAVE = f"""UPDATE fleet_jobs SET {assignments(*_DECIDED)}
WHERE id = :id AND status = :was AND attempt = :was_attempt AND coalesce(server_id, '') = :was_server
    AND (canceled_at IS NOT NULL) = CAST(:was_canceled AS boolean)"""
_STEP_KEY = ("job_id", "attempt", "name")
_CHANGED_OF_STEP = ("words", "status", "reference", "detail", "remedy", "started_at", "finished_at")


async def insert(tx: Tx, job: FleetJob) -> None:
    await tx.run(FLEET_JOBS.insert(), **to_params(job))
    tx.wake("fleet", job.id)


async def get(tx: Tx, job_id: str) -> FleetJob | None:
    return await FLEET_JOBS.find(tx, id=job_id)


async def numbered(tx: Tx, organization_id: str, number: int) -> FleetJob | None:
    return await FLEET_JOBS.find(tx, organization_id=organization_id, number=number)


async def hold(tx: Tx, job_id: str) -> FleetJob:
    """Read a job and lock its row until the transaction ends."""
    row = await tx.one("SELECT " + FLEET_JOBS.columns + " FROM fleet_jobs WHERE id = :id FOR UPDATE", id=job_id)
    if row is None:
        raise NotFound(f"there is no fleet job {job_id}")
    return row_to(FleetJob, row)


async def save(tx: Tx, before: FleetJob, after: FleetJob) -> None:
    """Write what was decided about a job. Raises Superseded if somebody else has decided about it meanwhile."""
    done = await tx.run(
        _SAVE,
        **to_params(after, "id", *_DECIDED),
        was=before.status.value,
        was_attempt=before.attempt,
        was_server=before.server_id or "",
        was_canceled=before.canceled_at is not None,
    )
    if not done:
        raise Superseded(f"fleet job {before.number} has changed meanwhile")
    tx.wake("fleet", after.id)
    if after.is_terminal or after.attempt != before.attempt:
        tx.wake(log_of(after.id))


async def open_of_target(tx: Tx, target_id: str) -> list[FleetJob]:
    """Return the jobs of a target that have not ended, the oldest first."""
    return await FLEET_JOBS.all(
        tx, "FROM fleet_jobs WHERE target_id = :target_id AND finished_at IS NULL ORDER BY id", target_id=target_id
    )


async def claimable(tx: Tx, count: int) -> list[FleetJob]:
    """Return the queued jobs whose turn it is: the first of its target, while no other job of the target runs."""
    return await FLEET_JOBS.all(
        tx,
        """FROM fleet_jobs WHERE fleet_jobs.status = 'QUEUED' AND fleet_jobs.due_at <= :now
        AND NOT EXISTS (SELECT 1 FROM fleet_jobs AS other
            WHERE other.target_id = fleet_jobs.target_id AND other.finished_at IS NULL
                AND (other.status <> 'QUEUED' OR other.id < fleet_jobs.id))
        ORDER BY fleet_jobs.id LIMIT :count""",
        now=tx.now,
        count=count,
    )


async def expired(tx: Tx, count: int) -> list[FleetJob]:
    """Return the jobs whose server has not renewed its lease."""
    return await FLEET_JOBS.all(
        tx,
        "FROM fleet_jobs WHERE finished_at IS NULL AND lease_until <= :now ORDER BY id LIMIT :count",
        now=tx.now,
        count=count,
    )


async def next_due(tx: Tx) -> float | None:
    """Return when something may happen by itself: a queued job becomes due, or a lease ends. None if no job is open."""
    row = await tx.one(
        """SELECT min(CASE WHEN status = 'QUEUED' THEN due_at ELSE lease_until END) AS at FROM fleet_jobs
        WHERE finished_at IS NULL"""
    )
    return None if row is None or row["at"] is None else float(row["at"])


async def put_steps(tx: Tx, steps: Sequence[FleetStep]) -> None:
    """Write steps; the caller has checked that their attempt is current. A step keeps its position."""
    sql = (
        FLEET_STEPS.insert_batch(*FLEET_STEPS.fields)
        + f" ON CONFLICT (job_id, attempt, name) DO UPDATE SET {excluded_assignments(*_CHANGED_OF_STEP)}"
    )
    await tx.each(sql, FLEET_STEPS.types, [values(each) for each in sorted(steps, key=_step_key)])


async def add_lines(tx: Tx, job_id: str, lines: Sequence[FleetLine]) -> None:
    """Write lines of the log. Those that it has already are left as they are."""
    sql = FLEET_LOG.insert_batch("job_id", *FLEET_LOG.fields) + " ON CONFLICT (job_id, attempt, number) DO NOTHING"
    await tx.each(sql, {"job_id": "text", **FLEET_LOG.types}, [[job_id, *values(each)] for each in lines])
    tx.wake(log_of(job_id))


async def fail_running_steps(tx: Tx, job_id: str, attempt: int, detail: str) -> None:
    """End the steps that did not end themselves."""
    await tx.run(
        """UPDATE fleet_steps SET status = 'failed', detail = :detail, finished_at = :now
        WHERE job_id = :job_id AND attempt = :attempt AND status = 'running'""",
        job_id=job_id,
        attempt=attempt,
        detail=detail,
        now=tx.now,
    )


async def add_note(tx: Tx, job: FleetJob, text: str) -> None:
    """Add a line of the server itself after the last one of the present attempt of a job that the transaction holds."""
    row = await tx.one(
        "SELECT max(number) AS last FROM fleet_log WHERE job_id = :job_id AND attempt = :attempt",
        job_id=job.id,
        attempt=job.attempt,
    )
    number = int(row["last"] or 0) + 1 if row else 1
    await add_lines(tx, job.id, [FleetLine(job.attempt, number, tx.moment, text)])


async def renew(tx: Tx, server_id: str, attempts: Sequence[tuple[str, int]], until: float) -> dict[str, bool]:
    """Extend the leases of jobs that this server has, and return which it still has, with whether a person has canceled them.

    `decide.renew` is the same for one job.
    """
    rows = await tx.each(
        f"""UPDATE fleet_jobs SET lease_until = batch.until FROM batch WHERE fleet_jobs.id = batch.id
            AND fleet_jobs.attempt = batch.attempt AND fleet_jobs.server_id = batch.server_id
            AND fleet_jobs.status IN {ACTIVE_STATUSES}
        RETURNING fleet_jobs.id, fleet_jobs.canceled_at""",
        {"id": "text", "attempt": "bigint", "server_id": "text", "until": "double precision"},
        [(job_id, attempt, server_id, until) for job_id, attempt in sorted(attempts)],
    )
    return {row["id"]: row["canceled_at"] is not None for row in rows}


async def delete_ended(tx: Tx, before: float, count: int) -> int:
    """Delete jobs that ended before this time, with their steps and logs, and return how many. The newest of each target stays."""
    return await tx.run(
        """DELETE FROM fleet_jobs WHERE id IN (SELECT old.id FROM fleet_jobs AS old
            WHERE old.finished_at < :before AND EXISTS (SELECT 1 FROM fleet_jobs AS newer
                WHERE newer.target_id = old.target_id AND newer.type = old.type AND newer.id > old.id)
            ORDER BY old.finished_at LIMIT :count)""",
        before=before,
        count=count,
    )


def _step_key(step: FleetStep) -> tuple[str, int, str]:
    return step.job_id, step.attempt, step.name
