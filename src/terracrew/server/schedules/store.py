"""Rows of schedules."""

from typing import LiteralString

from terracrew.api.schedules import Schedule, ScheduleSettings
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, assignments

SCHEDULES = Table("schedules", Schedule)
_SETTINGS = (*SCHEDULES.fields_of(ScheduleSettings), "changed_by", "changed_by_name", "changed_at", "next_at")
_STARTED: tuple[LiteralString, ...] = (
    "next_at",
    "last_at",
    "last_outcome",
    "is_last_problem",
    "last_job_id",
    "last_group_run_id",
)
_UPDATE_SETTINGS: LiteralString = f"UPDATE schedules SET {assignments(*_SETTINGS)} WHERE id = :id"
_UPDATE_STARTED: LiteralString = f"""UPDATE schedules SET {assignments(*_STARTED)} WHERE id = :id
    AND coalesce(next_at, 0) = coalesce(CAST(:was AS double precision), 0)"""


async def insert(tx: Tx, schedule: Schedule) -> None:
    await tx.run(SCHEDULES.insert(), **to_params(schedule, *SCHEDULES.fields))


async def get(tx: Tx, schedule_id: str) -> Schedule | None:
    return await SCHEDULES.find(tx, id=schedule_id)


async def hold(tx: Tx, schedule_id: str) -> Schedule | None:
    """Read a schedule, and lock its row until the transaction ends."""
    return await SCHEDULES.hold(tx, id=schedule_id)


async def change(tx: Tx, after: Schedule) -> None:
    """Write what people may change of a schedule that the transaction holds."""
    await tx.run(_UPDATE_SETTINGS, id=after.id, **to_params(after, *_SETTINGS))


async def start(tx: Tx, before: Schedule, after: Schedule) -> bool:
    """Write what a schedule has started, if it was still due at the same time. Returns False if another server was first."""
    was = None if before.next_at is None else before.next_at.timestamp()
    return await tx.run(_UPDATE_STARTED, id=after.id, was=was, **to_params(after, *_STARTED)) == 1


async def delete(tx: Tx, schedule_id: str) -> None:
    await tx.run("DELETE FROM schedules WHERE id = :id", id=schedule_id)


async def count(tx: Tx, organization_id: str) -> int:
    return await tx.value("SELECT count(*) AS found FROM schedules WHERE organization_id = :id", id=organization_id)


async def due(tx: Tx, count: int) -> list[str]:
    """Return the schedules whose time has come, those that have waited longest first."""
    rows = await tx.all(
        "SELECT id FROM schedules WHERE next_at IS NOT NULL AND next_at <= :now ORDER BY next_at, id LIMIT :count",
        now=tx.now,
        count=count,
    )
    return [row["id"] for row in rows]


async def next_due(tx: Tx) -> float | None:
    """Return when the next schedule starts."""
    return await tx.value("SELECT min(next_at) AS next_at FROM schedules WHERE next_at IS NOT NULL")


async def waiting(tx: Tx, after: str, count: int) -> list[Schedule]:
    """Return a page of the schedules that will start something."""
    return await SCHEDULES.all(
        tx,
        "FROM schedules WHERE next_at IS NOT NULL AND id > :after ORDER BY id LIMIT :count",
        after=after,
        count=count,
    )
