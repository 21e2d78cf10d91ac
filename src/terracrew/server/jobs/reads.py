"""Which jobs belong on a page of a list: the newest ones that match and that the reader may see, by ids.

A reader who may see everything is answered by the indexes of the organization. For any other reader, the newest job of each
visible module is looked up first. The newest `count` jobs can only be of the `count` modules whose newest job is newest, and
no more than `count` of each, so that a page costs one lookup for each visible module and a bounded number of rows.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import LiteralString

import msgspec

from terracrew.api.jobs import TERMINAL, Job, JobStatus
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.fragments import (
    ACTIVE_STATUSES,
    ENDED_STATUSES,
    IS_OPEN_JOB,
    instance_name,
    runner_path,
)
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import store
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

NEWEST_ID = "job_zzzz"
"""Sorts after the id of every job."""
COLUMNS_OF_A_LIST: LiteralString = store.JOBS.columns_without("plan")
"""The columns of a job without its plan, which can be large and which no list shows."""
_STARTED_BY: LiteralString = """coalesce((SELECT name FROM users WHERE users.id = jobs.created_by),
    (SELECT name FROM service_accounts WHERE service_accounts.id = jobs.created_by), jobs.created_by) AS started_by"""
_PLAN_START_CHARACTERS: LiteralString = "400"
COLUMNS_OF_A_ROW: LiteralString = f"""{COLUMNS_OF_A_LIST}, modules.path AS module_path,
    substr(jobs.plan, 1, {_PLAN_START_CHARACTERS}) AS plan_start,
    {runner_path("jobs")} AS runner_path, {instance_name("jobs")} AS instance_name,
    (SELECT min(name) FROM steps
        WHERE steps.job_id = jobs.id AND steps.attempt = jobs.attempt AND steps.status = 'RUNNING') AS step,
    (SELECT outcome FROM attempts
        WHERE attempts.job_id = jobs.id AND attempts.number = jobs.attempt - 1) AS earlier, {_STARTED_BY}"""
"""The columns of a list, the counts of the plan (`plan_counts`), and the names of everything that a job refers to by an id."""
_ENDED: LiteralString = f"jobs.status IN {ENDED_STATUSES}"
# The statements name the predicates of the partial indexes, which no database derives from a parameter.
_ANY_STATUS: LiteralString = ""
_ENDED_STATUS: LiteralString = " AND " + _ENDED + " AND jobs.status = :status"
_OPEN_STATUS: LiteralString = " AND " + IS_OPEN_JOB + " AND jobs.status = :status"
_ANY_OPEN: LiteralString = " AND " + IS_OPEN_JOB
# Most jobs of a module have ended, so the newest ones are found fastest in the order of their ids. `|| ''` keeps SQLite from the
# indexes of the ended jobs, which it would sort.
_ANY_ENDED: LiteralString = f" AND jobs.status || '' IN {ENDED_STATUSES}"
_ALSO: LiteralString = """ AND (CAST(:type AS text) = '' OR jobs.type = CAST(:type AS text))
    AND (CAST(:who AS text) = '' OR jobs.created_by IN (SELECT users.id FROM users WHERE users.name = CAST(:who AS text)
        UNION ALL SELECT service_accounts.id FROM service_accounts WHERE service_accounts.name = CAST(:who AS text)))
    AND (CAST(:runner AS text) = '' OR jobs.runner_id IN (SELECT runners.id FROM runners WHERE runners.path = CAST(:runner AS text)))
    AND jobs.id >= CAST(:oldest AS text)"""
"""The other filters. They are left out of a statement that uses none of them, so that it stays a walk along an index."""
# A deleted module is moved to another organization at once, and its jobs are removed afterwards.
_MODULE_EXISTS: LiteralString = """ AND EXISTS (SELECT 1 FROM modules
    WHERE modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id)"""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a list of jobs."""

    status: JobStatus | None = None
    is_open: bool = False
    """Only jobs that have not ended."""
    module_id: str | None = None
    """Only jobs of this module, which the reader may see."""
    before: str = ""
    """Only jobs that are older than this one."""
    type: JobType | None = None
    who: str = ""
    """Only jobs that the person or service account with this name has queued."""
    runner: str = ""
    """Only jobs that the runner with this path has, or had last."""
    since: datetime | None = None
    until: datetime | None = None
    """Only jobs that were created before this time."""
    is_ended: bool = False
    """Only jobs that have ended."""

    @property
    def has_more(self) -> bool:
        """Return whether one of the filters is used that no index has."""
        return bool(self.type or self.who or self.runner or self.since)


def _of_organization(matching: LiteralString) -> LiteralString:
    return (
        "SELECT jobs.id FROM jobs WHERE jobs.organization_id = :organization_id AND jobs.id < :before"
        + matching
        + _MODULE_EXISTS
        + " ORDER BY jobs.id DESC LIMIT :count"
    )


def _of_module(matching: LiteralString) -> LiteralString:
    return (
        "SELECT jobs.id FROM jobs WHERE jobs.module_id = :module_id AND jobs.id < :before"
        + matching
        + " ORDER BY jobs.id DESC LIMIT :count"
    )


def _of_reader(matching: LiteralString) -> LiteralString:
    return (
        visibility.SEEN_MODULES
        + """,
newest AS (
    SELECT seen_modules.id AS module_id,
        (SELECT max(jobs.id) FROM jobs WHERE jobs.module_id = seen_modules.id AND jobs.id < :before"""
        + matching
        + """) AS job_id
    FROM seen_modules),
chosen AS (SELECT module_id FROM newest WHERE job_id IS NOT NULL ORDER BY job_id DESC LIMIT :count)
SELECT jobs.id FROM chosen JOIN jobs ON jobs.module_id = chosen.module_id AND jobs.id < :before"""
        + matching
        + """
    AND jobs.id >= coalesce((SELECT jobs.id FROM jobs WHERE jobs.module_id = chosen.module_id AND jobs.id < :before"""
        + matching
        + """ ORDER BY jobs.id DESC LIMIT 1 OFFSET :count), '')
ORDER BY jobs.id DESC LIMIT :count"""
    )


_BY_STATUS: dict[str, LiteralString] = {
    "any": _ANY_STATUS,
    "ended": _ENDED_STATUS,
    "open": _OPEN_STATUS,
    "any_open": _ANY_OPEN,
    "any_ended": _ANY_ENDED,
}
_MATCHING: dict[str, LiteralString] = {
    **_BY_STATUS,
    **{f"{name} and more": matching + _ALSO for name, matching in _BY_STATUS.items()},
}
_ENDED_ONES: tuple[LiteralString, ...] = ("'SUCCEEDED'", "'FAILED'", "'CANCELED'", "'DECLINED'")
# In the order of their ids, ten thousand queued jobs would be read before the first one that has ended.
_ENDED_OF_ORGANIZATION: LiteralString = (
    "SELECT id FROM ("
    + " UNION ALL ".join(
        "SELECT id FROM (" + _of_organization(" AND " + _ENDED + " AND jobs.status = " + status) + ") AS one"
        for status in _ENDED_ONES
    )
    + ") AS ended ORDER BY id DESC LIMIT :count"
)
_ORGANIZATION: dict[str, LiteralString] = {
    **{name: _of_organization(matching) for name, matching in _MATCHING.items()},
    "any_ended": _ENDED_OF_ORGANIZATION,
}
_MODULE: dict[str, LiteralString] = {name: _of_module(matching) for name, matching in _MATCHING.items()}
_READER: dict[str, LiteralString] = {name: _of_reader(matching) for name, matching in _MATCHING.items()}


async def page(
    tx: Tx, columns: LiteralString, organization_id: str, seen: Visible, wanted: JobFilter, count: int
) -> list[Row]:
    """`columns` of the newest `count` jobs, from `jobs` and `modules`."""
    return await rows(tx, columns, await ids(tx, organization_id, seen, wanted, count))


async def rows(tx: Tx, columns: LiteralString, job_ids: Sequence[str]) -> list[Row]:
    """`columns` of these jobs, from `jobs` and `modules`, newest first."""
    found = await tx.each_id(
        "SELECT " + columns + " FROM batch JOIN jobs ON jobs.id = batch.id JOIN modules ON modules.id = jobs.module_id",
        job_ids,
    )
    return sorted(found, key=lambda row: row["id"], reverse=True)


async def ids(tx: Tx, organization_id: str, seen: Visible, wanted: JobFilter, count: int) -> list[str]:
    """The newest `count` jobs, newest first."""
    if seen.is_nothing:
        return []
    kind = "any_open" if wanted.is_open else "any_ended" if wanted.is_ended else "any"
    before = wanted.before or NEWEST_ID
    if wanted.until is not None:
        before = min(before, _first_id(wanted.until))
    given: dict[str, Param] = {"before": before, "count": count}
    if wanted.status is not None:
        if wanted.is_open and wanted.status in TERMINAL:
            return []
        kind = "ended" if wanted.status in TERMINAL else "open"
        given["status"] = wanted.status.value
    if wanted.has_more:
        kind = f"{kind} and more"
        given |= {"type": wanted.type.value if wanted.type else "", "who": wanted.who, "runner": wanted.runner}
        given["oldest"] = "" if wanted.since is None else _first_id(wanted.since)
    if wanted.module_id is not None:
        rows = await tx.all(_MODULE[kind], module_id=wanted.module_id, **given)
    elif seen.is_everything(organization_id):
        rows = await tx.all(_ORGANIZATION[kind], organization_id=organization_id, **given)
    else:
        rows = await tx.all(_READER[kind], **given, **visibility.params(seen))
    return [row["id"] for row in rows]


async def newest_of_modules(tx: Tx, job_ids: Sequence[str]) -> set[str]:
    """Return those of these jobs whose module has had no job since."""
    rows = await tx.each_id(
        """SELECT jobs.id FROM batch JOIN jobs ON jobs.id = batch.id
        WHERE NOT EXISTS (SELECT 1 FROM jobs AS later WHERE later.module_id = jobs.module_id AND later.id > jobs.id)""",
        job_ids,
    )
    return {row["id"] for row in rows}


def _first_id(moment: datetime) -> str:
    """Return the smallest id of a job that is created at this time: ids begin with the milliseconds since 1970.

    A time without a zone is one in UTC, wherever the server is.
    """
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return f"job_{max(0, int(seconds * 1000)):012x}"


def plan_counts(row: Row) -> str | None:
    """Return how much the plan of a row changes, as JSON without its resources: they may be megabytes, and come after the counts."""
    start = row["plan_start"]
    return None if start is None else start.partition(',"resources":')[0].rstrip("}") + "}"


async def places(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return the id and organization of these jobs, and the path of their modules; jobs of deleted modules are left out."""
    return await tx.each_id(
        """SELECT jobs.id, jobs.organization_id, modules.path FROM batch JOIN jobs ON jobs.id = batch.id
        JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id""",
        job_ids,
    )


async def started_by(tx: Tx, job_id: str) -> str:
    """Return the name of the person or service account that queued a job."""
    row = await tx.one("SELECT " + _STARTED_BY + " FROM jobs WHERE jobs.id = :id", id=job_id)
    assert row is not None
    return row["started_by"]


async def runners_of_attempts(tx: Tx, job_id: str) -> list[Row]:
    """Return the number of each attempt of a job, and the names of the runner and the instance that it ran on."""
    return await tx.all(
        f"""SELECT attempts.number, {runner_path("attempts")} AS runner_path, {instance_name("attempts")} AS instance_name
        FROM attempts WHERE attempts.job_id = :id""",
        id=job_id,
    )


async def of_module(tx: Tx, module_id: str, after: str, count: int) -> list[Row]:
    """Return the next jobs of a module after this one, and whether each has ended."""
    return await tx.all(
        """SELECT id, finished_at IS NOT NULL AS is_finished FROM jobs
        WHERE module_id = :module_id AND id > :after ORDER BY id LIMIT :page""",
        module_id=module_id,
        after=after,
        page=count,
    )


async def known(tx: Tx, job_ids: Sequence[str]) -> set[str]:
    """Return those of these jobs that exist."""
    rows = await tx.each_id("SELECT jobs.id FROM batch JOIN jobs ON jobs.id = batch.id", job_ids)
    return {row["id"] for row in rows}


async def module_of(tx: Tx, job_id: str) -> str | None:
    """Return the module of a job; None if there is no such job."""
    return await tx.value("SELECT module_id FROM jobs WHERE id = :id", id=job_id)


async def id_of_number(tx: Tx, organization_id: str | None, number: int) -> str | None:
    """Return the id of an organization's job by its number."""
    return await tx.value(
        "SELECT id FROM jobs WHERE organization_id = :organization_id AND number = :number",
        organization_id=organization_id,
        number=number,
    )


async def with_module_path(tx: Tx, job_id: str) -> tuple[Job, str] | None:
    """Return a job and the path of its module; None if either was deleted. Deleting a module moves it to another organization."""
    row = await tx.one(
        "SELECT "
        + store.JOBS.columns
        + """, modules.path AS module_path FROM jobs
        JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id
        WHERE jobs.id = :id""",
        id=job_id,
    )
    return None if row is None else (row_to(Job, row), row["module_path"])


async def lock_holder(tx: Tx, module_id: str) -> Row | None:
    """Return the active job of a module, which holds the lock of the module, and its attempt."""
    return await tx.one(
        f"""SELECT jobs.id AS job_id, jobs.number, jobs.attempt, attempts.claimed_at AS since, attempts.lost_at
        FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
        WHERE jobs.module_id = :module_id AND jobs.status IN {ACTIVE_STATUSES}""",
        module_id=module_id,
    )


async def module_lock(tx: Tx, module_id: str) -> Row | None:
    """Return the same of a module that has no active job, too, and whether a person holds its lock."""
    return await tx.one(
        f"""SELECT jobs.id AS job_id, jobs.number, jobs.attempt, attempts.claimed_at AS since, attempts.lost_at,
            modules.lock_id IS NOT NULL AS is_held_by_person
        FROM modules LEFT JOIN jobs ON jobs.module_id = modules.id AND jobs.status IN {ACTIVE_STATUSES}
        LEFT JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
        WHERE modules.id = :module_id""",
        module_id=module_id,
    )


async def newest_planned(tx: Tx, module_id: str) -> Job | None:
    """Return the newest job of a module that has made a plan and looked at everything that exists."""
    return await store.JOBS.one(
        tx,
        """FROM jobs WHERE module_id = :module_id AND plan IS NOT NULL AND targets = '[]' AND refresh
        ORDER BY id DESC LIMIT 1""",
        module_id=module_id,
    )
