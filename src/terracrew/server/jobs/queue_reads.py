"""Reads the jobs that wait: how many there are and for what, and which of them come first; and those that one request cancels."""

from collections.abc import Collection, Sequence
from typing import LiteralString, Protocol

import msgspec

from terracrew.server.db.seam import Columns, Param, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, ENDED_STATUSES
from terracrew.server.jobs import store
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.runners import eligibility
from terracrew.server.runners.eligibility import GRACE_SECONDS, Precedence


class HasTurn(Protocol):
    """A queued job, as far as its turn among the jobs of its module is concerned."""

    @property
    def priority(self) -> int: ...
    @property
    def number(self) -> int: ...


def turn_in_module(job: HasTurn) -> tuple[int, int]:
    """Return the sort key of the queued jobs of one module: a higher priority comes first, then the job that was created first.

    It does not depend on when a job was queued: a job that is queued again keeps its turn, so that an older configuration is not
    applied after a newer one. `first_of_module` is the same in SQL.
    """
    return -job.priority, job.number


def first_of_module(module_id: LiteralString) -> LiteralString:
    """Return an expression for the id of the queued job of a module that runs next. `turn_in_module` is the same in Python.

    An index has the queued jobs of each module in this order, so that one row is read however many wait.
    """
    return f"""(SELECT head.id FROM jobs AS head WHERE head.module_id = {module_id} AND head.status = 'QUEUED'
        ORDER BY head.priority DESC, head.number LIMIT 1)"""


# Compared in the database: a time that has been outside is not quite the same.
_BEFORE: LiteralString = """jobs.status = 'QUEUED' AND (jobs.priority > own.priority OR jobs.priority = own.priority
    AND (jobs.queued_at < own.queued_at OR jobs.queued_at = own.queued_at AND jobs.id < own.id))"""

_MODULES_AND_MAKERS: LiteralString = (
    """SELECT batch.id AS job_id, modules.id, modules.group_id, modules.path, modules.engine, """
    + eligibility.WANTED_VERSION
    + """ AS engine_version, jobs.dispatcher, modules.tags, modules.runner_id,
    modules.runner_instance_name AS instance_name, makers.runner_id AS maker_id
FROM batch JOIN jobs ON jobs.id = batch.id JOIN modules ON modules.id = jobs.module_id
LEFT JOIN (SELECT jobs.id AS job_id, maker.id AS runner_id FROM batch
    JOIN jobs ON jobs.id = batch.id CROSS JOIN """
    + eligibility.MAKER
    + " WHERE "
    + eligibility.OF_JOB
    + """) AS makers ON makers.job_id = jobs.id"""
)


async def counts_by_status(tx: Tx) -> list[Row]:
    """Return how many jobs have not ended, by their status, and since when the oldest is queued."""
    return await tx.all(
        f"""SELECT status, count(*) AS jobs, min(queued_at) AS oldest FROM jobs
        WHERE status NOT IN {ENDED_STATUSES} GROUP BY status"""
    )


async def still_queued(tx: Tx, job_ids: Collection[str]) -> int:
    """Return how many of these jobs wait for a runner."""
    rows = await tx.each_id(
        "SELECT count(*) AS jobs FROM batch JOIN jobs ON jobs.id = batch.id AND jobs.status || '' = 'QUEUED'",
        sorted(job_ids),
    )
    return sum(row["jobs"] for row in rows)


async def trouble_counts(tx: Tx) -> Row | None:
    """Count the states in quarantine, the modules in doubt, and the active jobs whose attempts are lost."""
    return await tx.one(
        f"""SELECT (SELECT count(*) FROM states WHERE status = 'quarantined') AS quarantined,
            (SELECT count(DISTINCT jobs.module_id) FROM attempts JOIN jobs ON jobs.id = attempts.job_id
                WHERE attempts.is_in_doubt) AS doubts,
            (SELECT count(*) FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
                WHERE jobs.status IN {ACTIVE_STATUSES} AND attempts.lost_at IS NOT NULL) AS lost"""
    )


async def queued_by_route(tx: Tx) -> list[Row]:
    """Count the queued jobs by what their module lacks and by what decides which runners may take them."""
    return await tx.all(
        f"""SELECT reason, group_id, engine, engine_version, dispatcher, tags, runner_id, runner_instance_name, own, is_first,
            min(id) AS job_id, count(*) AS jobs
        FROM (
            SELECT queued.id, modules.group_id, modules.engine, modules.engine_version || queued.pinned_engine_version AS engine_version,
                queued.dispatcher, modules.tags, modules.runner_id, modules.runner_instance_name,
                CASE WHEN EXISTS (SELECT 1 FROM states
                        WHERE states.module_id = modules.id AND states.status = 'quarantined') THEN 'quarantine'
                    WHEN modules.lock_id IS NOT NULL THEN 'locked'
                    WHEN EXISTS (SELECT 1 FROM jobs AS busy
                        WHERE busy.module_id = modules.id AND busy.status IN {ACTIVE_STATUSES}) THEN 'module_busy'
                    ELSE '' END AS reason,
                CASE WHEN queued.plan_attempt IS NOT NULL THEN queued.id
                    WHEN EXISTS (SELECT 1 FROM assignments WHERE assignments.place_id = modules.id) THEN modules.id
                    ELSE '' END AS own,
                queued.place = 1 AS is_first
            FROM (
                SELECT id, module_id, plan_attempt, pinned_engine_version, dispatcher, row_number() OVER (
                    PARTITION BY module_id ORDER BY priority DESC, number) AS place
                FROM jobs WHERE status = 'QUEUED') AS queued
            JOIN modules ON modules.id = queued.module_id) AS found
        GROUP BY reason, group_id, engine, engine_version, dispatcher, tags, runner_id, runner_instance_name, own, is_first
        ORDER BY jobs DESC"""
    )


async def awaiting_approval(tx: Tx) -> list[Row]:
    """Count the plans that wait for a person, apart for modules in doubt, and tell when the oldest of them was made.

    The statement excludes the terminal statuses, too, because SQLite uses the partial index of open jobs only then.
    """
    return await tx.all(
        f"""SELECT doubtful.module_id IS NOT NULL AS is_in_doubt, count(*) AS jobs, min(plans.made_at) AS oldest
        FROM jobs JOIN plans ON plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt
        LEFT JOIN (SELECT DISTINCT own.module_id FROM attempts JOIN jobs AS own ON own.id = attempts.job_id
            WHERE attempts.is_in_doubt) AS doubtful ON doubtful.module_id = jobs.module_id
        WHERE jobs.status NOT IN {ENDED_STATUSES} AND jobs.status = 'AWAITING_APPROVAL'
        GROUP BY doubtful.module_id IS NOT NULL"""
    )


async def modules(tx: Tx, job_ids: Collection[str]) -> list[Row]:
    """Return the module of each job, and the only runner that may continue with its plan, if there is such a plan."""
    return await tx.each_id(_MODULES_AND_MAKERS, sorted(job_ids))


async def planned_by(tx: Tx, runner_id: str) -> list[str]:
    """Return the queued jobs that continue with a plan which this runner made."""
    rows = await tx.all(
        """SELECT jobs.id FROM jobs JOIN plans ON plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt
        JOIN attempts ON attempts.job_id = plans.made_job_id AND attempts.number = plans.made_attempt
        WHERE jobs.status = 'QUEUED' AND jobs.plan_attempt IS NOT NULL AND attempts.runner_id = :id ORDER BY jobs.id""",
        id=runner_id,
    )
    return [row["id"] for row in rows]


async def first_of_modules(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """For each of these jobs (`behind`), return the queued job of its module that comes first, unless it is the job itself."""
    return await tx.each_id(
        "SELECT own.id AS behind, jobs.id, jobs.number FROM batch JOIN jobs AS own ON own.id = batch.id"
        " JOIN jobs ON jobs.id = " + first_of_module("own.module_id") + " WHERE jobs.id <> own.id",
        sorted(job_ids),
    )


async def capped_groups(tx: Tx, job_ids: Collection[str]) -> list[Row]:
    """Return the groups above these jobs that limit how many jobs run at once, each job's nearest group first."""
    return await tx.each(
        eligibility.CAPPED_GROUPS + " ORDER BY capped.depth DESC",
        {"job_id": "text"},
        [(job_id,) for job_id in sorted(job_ids)],
    )


_RUNNING_JOBS: LiteralString = f"""SELECT batch.organization_id, batch.path,
    {eligibility.running_below("batch.organization_id", "batch.path")} AS jobs FROM batch"""


async def running_jobs(tx: Tx, groups: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return how many jobs run in and below each of these groups, which are given by organization and path."""
    rows = await tx.each(_RUNNING_JOBS, {"organization_id": "text", "path": "text"}, sorted(groups))
    return {(row["organization_id"], row["path"]): row["jobs"] for row in rows}


def _ahead(precedence: Precedence) -> LiteralString:
    return f"""SELECT count(*) AS ahead FROM (
    SELECT jobs.id FROM batch JOIN jobs AS own ON own.id = batch.id JOIN jobs ON {_BEFORE}
    JOIN modules ON modules.id = jobs.module_id
    JOIN instances ON instances.id = batch.instance_id JOIN runners ON runners.id = instances.runner_id
    WHERE NOT EXISTS (
        SELECT 1 FROM jobs AS busy WHERE busy.module_id = jobs.module_id AND busy.status IN {ACTIVE_STATUSES})
      AND modules.lock_id IS NULL
      AND {eligibility.IS_PIN} AND {eligibility.may_have_engine("modules.engine", eligibility.WANTED_VERSION)}
      AND {eligibility.has_tags("modules.tags")}
      AND {eligibility.IS_ASSIGNED}
      AND NOT EXISTS (SELECT 1 FROM {eligibility.MAKER} WHERE {eligibility.OF_JOB} AND maker.id <> runners.id)
      AND {eligibility.is_of_nearest_tier(precedence)}
    LIMIT (SELECT most FROM batch)) AS counted"""


_AHEAD: dict[Precedence, LiteralString] = {"online": _ahead("online"), "configured": _ahead("configured")}


async def count_ahead(tx: Tx, job_id: str, instance_id: str, precedence: Precedence, limit: int) -> int:
    """Return how many queued jobs that this instance may claim come before a job, by priority and age; at most `limit`."""
    columns: Columns = {"id": "text", "instance_id": "text", "grace_since": "double precision", "most": "bigint"}
    rows = await tx.each(_AHEAD[precedence], columns, [(job_id, instance_id, tx.now - GRACE_SECONDS, limit)])
    return rows[0]["ahead"]


_MATCHING: LiteralString = f""" FROM jobs JOIN modules ON modules.id = jobs.module_id
WHERE jobs.organization_id = :organization_id AND jobs.id > :after
  AND jobs.status NOT IN {ENDED_STATUSES}
  AND (CAST(:up_to AS text) IS NULL OR jobs.id <= :up_to)
  AND (CAST(:status AS text) IS NULL OR jobs.status = :status)
  AND (CAST(:module_id AS text) IS NULL OR jobs.module_id = :module_id)
  AND substr(modules.path, 1, length(CAST(:below AS text))) = CAST(:below AS text)"""
"""The jobs of a `CancelSelection` after a given one that have not ended."""
_IN_ORDER: LiteralString = " ORDER BY jobs.id LIMIT :count"
_SEEN: LiteralString = " AND jobs.module_id IN (SELECT id FROM seen_modules)"


class CancelSelection(msgspec.Struct, frozen=True):
    """The open jobs of an organization that a request is about; None and an empty text stand for no limit."""

    organization_id: str
    module_id: str | None
    below: str
    status: str | None
    up_to: str | None


async def cancelable_ids(tx: Tx, selection: CancelSelection, seen: Visible, after: str, count: int) -> list[str]:
    """Return the oldest jobs of the selection after this one."""
    statement, given = _statement(seen, selection, "jobs.id")
    return [row["id"] for row in await tx.all(statement, after=after, count=count, **given)]


async def hold_cancelable(tx: Tx, selection: CancelSelection, seen: Visible, after: str, count: int) -> list[Row]:
    """Return and lock the oldest jobs of the selection after this one."""
    statement, given = _statement(seen, selection, store.JOBS.columns)
    statement += " FOR NO KEY UPDATE OF jobs"
    return await tx.all(statement, after=after, count=count, **given)


def _statement(
    seen: Visible, selection: CancelSelection, columns: LiteralString
) -> tuple[LiteralString, dict[str, Param]]:
    """Return the oldest jobs of the selection that the principal may cancel, and what the statement takes."""
    given: dict[str, Param] = msgspec.structs.asdict(selection)
    matching: LiteralString = " SELECT " + columns + _MATCHING
    if seen.is_everything(selection.organization_id):
        return matching + _IN_ORDER, given
    return visibility.SEEN_MODULES + matching + _SEEN + _IN_ORDER, given | visibility.params(seen)


async def queued_merge(tx: Tx, module_id: str) -> str | None:
    """Return the queued APPLY of what was merged into the branch of a module, if it takes the newest commit when it starts.

    One that was begun before has its commit: its plan was approved, or it is repeated.
    """
    return await tx.value(
        """SELECT jobs.id FROM jobs WHERE jobs.module_id = :module_id AND jobs.type = 'APPLY' AND jobs.status = 'QUEUED'
            AND jobs.plan_job_id IS NULL AND jobs.attempt = 1 AND jobs.plan_attempt IS NULL AND jobs.source_commit = ''
            AND jobs.origin LIKE '%"kind":"merge"%' ORDER BY jobs.id DESC LIMIT 1""",
        module_id=module_id,
    )
