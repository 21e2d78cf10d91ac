"""Rows of what the logs of attempts that were cut short report as changed."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from terracrew.protocol.events import PlanSummary
from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.statements.table import Table, values
from terracrew.server.jobs.lost_resources.model import FoundChange, StoredChange

_CHANGES = Table("lost_resources", FoundChange)
_ROWS = Table("lost_resources", StoredChange, without=("state_event",))
_IS_CUT_SHORT = """attempts.begun_at IS NOT NULL AND NOT attempts.is_change_ended
    AND (attempts.ended_at IS NOT NULL OR attempts.lost_at IS NOT NULL)"""
_UNSEARCHED = f"""SELECT attempts.job_id, attempts.number, attempts.mark, modules.engine FROM attempts
    JOIN jobs ON jobs.id = attempts.job_id JOIN modules ON modules.id = jobs.module_id
    WHERE {_IS_CUT_SHORT} AND NOT attempts.is_log_searched"""
_IS_LOG_CUT = """(attempts.begun_at IS NOT NULL OR attempts.may_have_begun) AND NOT attempts.is_change_ended
    AND (attempts.ended_at IS NOT NULL OR attempts.lost_at IS NOT NULL) AND NOT attempts.has_result
    AND (NOT attempts.is_delivered OR attempts.is_output_missing)"""
"""The negation of `Attempt.is_log_complete`, for attempts that were cut short, or may have been in a time that the database lost."""
_CUT_LOG = """attempts.job_id, attempts.number, attempts.received_at, attempts.heard_at,
    coalesce(attempts.begun_at, attempts.claimed_at) AS began_at, attempts.begun_at IS NULL AS is_begin_unknown,
    attempts.is_output_missing, attempts.is_in_doubt OR attempts.ended_at IS NULL AS is_undecided,
    coalesce(attempts.plan, CASE WHEN jobs.attempt = attempts.number THEN jobs.plan END) AS plan"""
_STATE_EVENT = """coalesce((SELECT max(states.event) FROM states WHERE states.job_id = lost_resources.job_id
    AND states.attempt = lost_resources.attempt AND states.problem = ''), 0) AS state_event"""
_KEYED: Columns = {"job_id": "text", "attempt": "bigint", "number": "bigint"}


class CutShort(msgspec.Struct, frozen=True):
    """An attempt whose engine did not end its change by itself, and whose log is to be searched up to this event."""

    job_id: str
    number: int
    mark: int
    engine: str

    @property
    def key(self) -> str:
        return f"{self.job_id}.{self.number}"


class CutLog(msgspec.Struct, frozen=True):
    """An attempt that was cut short and whose log is not known to be complete."""

    job_id: str
    number: int
    received_at: datetime | None
    heard_at: datetime | None
    began_at: datetime
    is_begin_unknown: bool
    """Whether the database was set back since, and does not know whether it began to change anything."""
    is_output_missing: bool
    is_undecided: bool
    """Whether nobody has approved a plan since."""
    plan: PlanSummary | None
    """What it was to do."""


async def unsearched(tx: Tx, count: int) -> list[CutShort]:
    """Return attempts that were cut short and whose logs are not searched, or have become longer since."""
    rows = await tx.all(_UNSEARCHED + " ORDER BY attempts.job_id, attempts.number LIMIT :count", count=count)
    return rows_to(CutShort, rows)


async def unsearched_of_module(tx: Tx, module_id: str, count: int) -> list[CutShort]:
    """Return those of one module."""
    rows = await tx.all(_UNSEARCHED + " AND jobs.module_id = :module_id LIMIT :count", module_id=module_id, count=count)
    return rows_to(CutShort, rows)


async def replace(tx: Tx, job_id: str, attempt: int, found: Sequence[FoundChange]) -> None:
    """Store what the log of an attempt reports, in place of what was found in it before."""
    await tx.run(
        "DELETE FROM lost_resources WHERE job_id = :job_id AND attempt = :attempt", job_id=job_id, attempt=attempt
    )
    rows = [(job_id, attempt, number, *values(each, *_CHANGES.fields)) for number, each in enumerate(found, 1)]
    if rows:
        await tx.each(
            _CHANGES.insert_batch("job_id", "attempt", "number", *_CHANGES.fields) + " RETURNING number",
            {**_KEYED, **_CHANGES.types},
            rows,
        )


async def of_job(tx: Tx, job_id: str, after: tuple[int, int], count: int) -> list[StoredChange]:
    """Return what the attempts of a job that were cut short report as changed, after this attempt and number."""
    rows = await tx.all(
        f"""SELECT {_ROWS.columns}, {_STATE_EVENT} FROM lost_resources
        JOIN attempts ON attempts.job_id = lost_resources.job_id AND attempts.number = lost_resources.attempt
        WHERE lost_resources.job_id = :job_id AND NOT attempts.is_change_ended
            AND (lost_resources.attempt, lost_resources.number) > (CAST(:attempt AS bigint), CAST(:number AS bigint))
        ORDER BY lost_resources.attempt, lost_resources.number LIMIT :count""",
        job_id=job_id,
        attempt=after[0],
        number=after[1],
        count=count,
    )
    return rows_to(StoredChange, rows)


async def in_doubt(tx: Tx, module_id: str, count: int) -> list[StoredChange]:
    """Return what the attempts report as changed that put a module in doubt, oldest first."""
    rows = await tx.all(
        f"""SELECT {_ROWS.columns}, {_STATE_EVENT} FROM attempts
        JOIN jobs ON jobs.id = attempts.job_id AND jobs.module_id = :module_id
        JOIN lost_resources ON lost_resources.job_id = attempts.job_id AND lost_resources.attempt = attempts.number
        WHERE attempts.is_in_doubt AND NOT attempts.is_change_ended
        ORDER BY lost_resources.job_id, lost_resources.attempt, lost_resources.number LIMIT :count""",
        module_id=module_id,
        count=count,
    )
    return rows_to(StoredChange, rows)


async def cut_logs(tx: Tx, job_id: str) -> list[CutLog]:
    """Return the attempts of a job that were cut short and whose logs are not known to be complete."""
    rows = await tx.all(
        f"""SELECT {_CUT_LOG} FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE attempts.job_id = :job_id AND {_IS_LOG_CUT} ORDER BY attempts.number""",
        job_id=job_id,
    )
    return rows_to(CutLog, rows)


async def cut_logs_in_doubt(tx: Tx, module_id: str) -> list[CutLog]:
    """Return those of them that put a module in doubt."""
    rows = await tx.all(
        f"""SELECT {_CUT_LOG} FROM attempts JOIN jobs ON jobs.id = attempts.job_id AND jobs.module_id = :module_id
        WHERE attempts.is_in_doubt AND {_IS_LOG_CUT} ORDER BY attempts.job_id, attempts.number""",
        module_id=module_id,
    )
    return rows_to(CutLog, rows)


async def reported_addresses(tx: Tx, job_id: str, attempt: int) -> set[str]:
    """Return the addresses of the resources that the log of an attempt mentions."""
    rows = await tx.all(
        "SELECT address FROM lost_resources WHERE job_id = :job_id AND attempt = :attempt",
        job_id=job_id,
        attempt=attempt,
    )
    return {row["address"] for row in rows}


async def module_facts(tx: Tx, job_id: str) -> Row | None:
    """Return the engine and the backend of the module of a job."""
    return await tx.one(
        "SELECT modules.engine, modules.backend FROM jobs JOIN modules ON modules.id = jobs.module_id WHERE jobs.id = :id",
        id=job_id,
    )


async def delete_of_job(tx: Tx, job_id: str) -> None:
    await tx.run("DELETE FROM lost_resources WHERE job_id = :id", id=job_id)
