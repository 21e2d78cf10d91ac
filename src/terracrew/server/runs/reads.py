"""Reads what people see of jobs and attempts, joined from the tables of jobs, states, modules, plans and runners."""

from collections.abc import Collection, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.fragments import (
    ACTIVE_STATUSES,
    IS_OPEN_JOB,
    instance_name,
    only_destroys,
    runner_path,
)
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.tree.inputs import reads as input_reads

_PLACEMENT: LiteralString = (
    f"{runner_path('modules')} AS pinned_runner_path, modules.runner_instance_name, modules.tags, modules.group_id"
)

_PLAN_COLUMNS: LiteralString = plan_store.PLANS.columns
_AWAITING: LiteralString = """jobs.id, jobs.number, jobs.module_id, jobs.created_by, jobs.imports_chosen_by, jobs.replanned_by,
    jobs.plan_queued_by, jobs.plan_attempt, plans.approvals"""
_WITH_PLAN: LiteralString = """ JOIN plans ON plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt
    JOIN modules ON modules.id = jobs.module_id AND (modules.state_version <> plans.state_version) = CAST(:is_stale AS boolean)"""
_IS_AWAITING: LiteralString = f"{IS_OPEN_JOB} AND jobs.status = 'AWAITING_APPROVAL' ORDER BY jobs.id LIMIT :count"
# CROSS JOIN makes SQLite begin with the few plans that wait, and `|| ''` keeps both databases from the jobs of the organization.
_ENDING: LiteralString = """SELECT jobs.id, jobs.number, modules.path, plans.decide_by FROM plans
    CROSS JOIN jobs CROSS JOIN modules
    WHERE plans.is_open AND plans.decision IS NULL AND plans.decide_by > :now AND plans.decide_by <= :until
    AND jobs.id = plans.job_id AND jobs.plan_attempt = plans.attempt AND jobs.status || '' = 'AWAITING_APPROVAL'
    AND jobs.organization_id || '' = :organization_id
    AND modules.id = jobs.module_id AND modules.organization_id || '' = :organization_id"""
_IS_SEEN: LiteralString = " AND modules.id IN (SELECT id FROM seen_modules)"
_NEXT_TO_END: LiteralString = " ORDER BY plans.decide_by, jobs.id LIMIT :count"
_IS_QUEUED: LiteralString = f"{IS_OPEN_JOB} AND jobs.status = 'QUEUED'"
_QUEUED_OF_ORGANIZATION: LiteralString = f"""SELECT jobs.id FROM jobs
    WHERE jobs.organization_id = :organization_id AND {_IS_QUEUED} AND EXISTS (SELECT 1 FROM modules
        WHERE modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id)
    ORDER BY jobs.id LIMIT :count"""
# CROSS JOIN makes SQLite begin with the modules. It would read the queued jobs of every organization, in their order, instead.
_QUEUED_OF_READER: LiteralString = f"""{visibility.SEEN_MODULES} SELECT jobs.id FROM seen_modules CROSS JOIN jobs
    WHERE jobs.module_id = seen_modules.id AND {_IS_QUEUED} ORDER BY jobs.id LIMIT :count"""


async def attempt_facts(tx: Tx, job_id: str, attempt: int) -> Row | None:
    """Return what is stored about an attempt: its times, its runner, and the states that it has delivered."""
    return await tx.one(
        f"""SELECT attempts.job_id, jobs.number, attempts.number AS attempt, attempts.claimed_at, attempts.begun_at,
            coalesce(attempts.heard_at, attempts.claimed_at) AS heard_at, attempts.started_at, attempts.lost_at,
            attempts.ended_at, attempts.outcome, attempts.reason, attempts.is_gone,
            attempts.is_in_doubt, attempts.lines, attempts.received_at, attempts.has_result, attempts.is_delivered,
            attempts.is_output_missing, attempts.may_have_begun,
            {runner_path("attempts")} AS runner_path, {instance_name("attempts")} AS instance_name,
            (SELECT count(*) FROM states
                WHERE states.job_id = attempts.job_id AND states.attempt = attempts.number AND states.problem = '') AS states,
            (SELECT max(serial) FROM states
                WHERE states.job_id = attempts.job_id AND states.attempt = attempts.number AND states.problem = '') AS serial,
            (SELECT max(created_at) FROM states
                WHERE states.job_id = attempts.job_id AND states.attempt = attempts.number AND states.problem = '') AS state_at,
            (SELECT max(event) FROM states
                WHERE states.job_id = attempts.job_id AND states.attempt = attempts.number AND states.problem = '') AS state_event,
            attempts.is_change_ended, attempts.log_moved, jobs.module_id
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE attempts.job_id = :job_id AND attempts.number = :attempt""",
        job_id=job_id,
        attempt=attempt,
    )


async def surroundings(tx: Tx, job_id: str) -> Row | None:
    """Return what the view of a job needs to know of other rows, in one statement, because each change of a job that is followed
    asks for it: its module with its placement, the number of the job that caused it, the names of its runner and instance, which
    may have been removed, whether it has notes, and whether its module is in doubt before the job has ended.

    `module_id || ''` keeps SQLite from reading every job that the module ever had: few attempts are in doubt.
    """
    return await tx.one(
        f"""SELECT modules.path AS module_path, modules.engine, modules.state_version, modules.backend,
            modules.source AS module_source,
            (SELECT planned.number FROM jobs AS planned WHERE planned.id = jobs.plan_job_id) AS plan_job_number,
            {runner_path("jobs")} AS runner_path, {instance_name("jobs")} AS instance_name, {_PLACEMENT},
            EXISTS (SELECT 1 FROM notes WHERE notes.job_id = jobs.id) AS has_notes,
            (SELECT number FROM jobs AS cause WHERE cause.id = jobs.cause_job_id) AS cause_number,
            jobs.finished_at IS NULL AND EXISTS (
                SELECT 1 FROM attempts JOIN jobs AS cut ON cut.id = attempts.job_id
                WHERE cut.module_id || '' = modules.id AND attempts.is_in_doubt) AS is_in_doubt,
            EXISTS (SELECT 1 FROM held_modules WHERE held_modules.module_id = modules.id
                AND (held_modules.is_held OR held_modules.is_in_doubt)) AS has_holds
        FROM jobs JOIN modules ON modules.id = jobs.module_id WHERE jobs.id = :id""",
        id=job_id,
    )


async def plans_of_jobs(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return for each job (`asked_id`) the plan that it has kept, if any, and the state version and the source of its module."""
    return await tx.each_id(
        f"""SELECT own.id AS asked_id, modules.state_version AS module_state_version, modules.source AS module_source,
            {_PLAN_COLUMNS}
        FROM batch JOIN jobs AS own ON own.id = batch.id JOIN modules ON modules.id = own.module_id
        LEFT JOIN plans ON plans.job_id = own.id AND plans.attempt = own.plan_attempt""",
        job_ids,
    )


async def number_of(tx: Tx, job_id: str) -> int | None:
    return await tx.value("SELECT number FROM jobs WHERE id = :id", id=job_id)


async def module_placement(tx: Tx, module_id: str) -> Row | None:
    """Return the runner and the instance that a module is pinned to, its tags and its group."""
    return await tx.one(f"SELECT {_PLACEMENT} FROM modules WHERE modules.id = :id", id=module_id)


async def held_lock(tx: Tx, module_id: str) -> Row | None:
    """Return the last attempt of a module that may have left the lock of its backend behind.

    A plan, an apply or a destroy takes the lock. If one of a later attempt has succeeded, the lock was free.
    """
    return await tx.one(
        """SELECT attempts.job_id, jobs.number, attempts.number AS attempt, attempts.ended_at
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id
        WHERE attempts.may_hold_lock AND jobs.module_id = :module_id AND attempts.ended_at IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM jobs AS later JOIN attempts AS owner ON owner.job_id = later.id
            JOIN steps ON steps.job_id = owner.job_id AND steps.attempt = owner.number
            WHERE later.module_id = jobs.module_id AND owner.claimed_at > attempts.ended_at
                AND steps.name IN ('plan', 'apply', 'destroy') AND steps.status = 'SUCCEEDED')
        ORDER BY attempts.ended_at DESC, attempts.job_id LIMIT 1""",
        module_id=module_id,
    )


async def oldest_quarantined_states(tx: Tx, waiting: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the oldest state in quarantine in the module of each of these jobs (job, module); `waiting` is the job."""
    return await tx.each(
        """SELECT batch.id AS waiting, jobs.number, states.attempt, states.created_at, states.problem, modules.backend,
            modules.id AS module_id
        FROM batch JOIN states ON states.id = (SELECT min(late.id) FROM states AS late
            WHERE late.module_id = batch.module_id AND late.status = 'quarantined')
        LEFT JOIN jobs ON jobs.id = states.job_id JOIN modules ON modules.id = states.module_id""",
        {"id": "text", "module_id": "text"},
        waiting,
    )


async def missing_dependencies(tx: Tx, waiting: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the inputs of the modules of these jobs (job, module) that are outputs which do not exist yet or are not given any more
    (`is_ended`); `waiting` is the job."""
    return await tx.each(
        f"""SELECT batch.id AS waiting, inputs.name, inputs.source_output, source.id AS source_id, source.path, inputs.set_at,
            source.organization_id, inputs.set_by_name, inputs.ended_by_name,
            CASE WHEN {input_reads.is_ended("batch.now")} THEN 1 ELSE 0 END AS is_ended,
            CASE WHEN {input_reads.HAS_OLDER_OUTPUTS} THEN 1 ELSE 0 END AS has_older_outputs
        FROM batch JOIN jobs AS waiting ON waiting.id = batch.id JOIN inputs ON inputs.place_id = batch.module_id
        JOIN modules AS source ON source.id = inputs.source_module_id
        WHERE {input_reads.holds_jobs("batch.now", only_destroys("waiting"))} ORDER BY source.path, inputs.name""",
        {"id": "text", "module_id": "text", "now": "double precision"},
        [(job_id, module_id, tx.now) for job_id, module_id in waiting],
    )


async def awaiting_approval(
    tx: Tx, organization_id: str, seen: Visible, count: int, *, is_stale: bool = False
) -> list[Row]:
    """Return the oldest jobs that wait for a person in the modules that are seen, with who wanted them and who has approved. Nobody
    can approve a plan from before another state: with `is_stale`, only those are returned, and otherwise none of them."""
    if seen.is_everything(organization_id):
        return await tx.all(
            f"""SELECT {_AWAITING} FROM jobs {_WITH_PLAN} WHERE jobs.organization_id = :organization_id AND {_IS_AWAITING}""",
            organization_id=organization_id,
            count=count,
            is_stale=is_stale,
        )
    # CROSS JOIN makes SQLite begin with the modules, as for the queued jobs. It would read the open jobs of all organizations.
    return await tx.all(
        f"""{visibility.SEEN_MODULES} SELECT {_AWAITING} FROM seen_modules CROSS JOIN jobs {_WITH_PLAN}
        WHERE jobs.module_id = seen_modules.id AND {_IS_AWAITING}""",
        count=count,
        is_stale=is_stale,
        **visibility.params(seen),
    )


async def approvals_that_end(tx: Tx, organization_id: str, seen: Visible, until: float, count: int) -> list[Row]:
    """Return the jobs in the modules that are seen whose time to be approved ends next, before a time."""
    if seen.is_nothing:
        return []
    given: dict[str, Param] = {"organization_id": organization_id, "now": tx.now, "until": until, "count": count}
    if seen.is_everything(organization_id):
        return await tx.all(_ENDING + _NEXT_TO_END, **given)
    sql: LiteralString = f"{visibility.SEEN_MODULES} {_ENDING}{_IS_SEEN}{_NEXT_TO_END}"
    return await tx.all(sql, **given, **visibility.params(seen))


async def plans_awaiting_approval(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return the plans of these jobs, whether their state has changed since, and whether their module is in doubt, because of an
    attempt or since the database was set back."""
    return await tx.each_id(
        """SELECT plans.job_id, plans.made_at, plans.decide_by, plans.why, plans.approvals,
            plans.state_version <> modules.state_version AS is_stale, EXISTS (
            SELECT 1 FROM attempts JOIN jobs ON jobs.id = attempts.job_id
            WHERE jobs.module_id = modules.id AND attempts.is_in_doubt) AS is_in_doubt, EXISTS (
            SELECT 1 FROM held_modules WHERE held_modules.module_id = modules.id AND held_modules.is_in_doubt) AS is_set_back
        FROM batch JOIN jobs AS own ON own.id = batch.id JOIN modules ON modules.id = own.module_id
        JOIN plans ON plans.job_id = own.id AND plans.attempt = own.plan_attempt""",
        job_ids,
    )


async def oldest_queued(tx: Tx, organization_id: str, seen: Visible, count: int) -> list[str]:
    """Return the jobs that wait for a runner for the longest time, of the modules that are seen."""
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        rows = await tx.all(_QUEUED_OF_ORGANIZATION, organization_id=organization_id, count=count)
    else:
        rows = await tx.all(_QUEUED_OF_READER, count=count, **visibility.params(seen))
    return [row["id"] for row in rows]


async def out_of_contact(tx: Tx, organization_id: str, since: float, count: int) -> list[Row]:
    """Return the active jobs whose attempt is lost or was not heard since this time, with the paths of their modules, the one that was
    claimed first first. Ordered by their ids, SQLite would read every job of the organization."""
    return await tx.all(
        f"""SELECT jobs.id, modules.path FROM jobs
        JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
        JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id
        WHERE jobs.organization_id = :organization_id AND jobs.status IN {ACTIVE_STATUSES}
            AND (attempts.lost_at IS NOT NULL OR coalesce(attempts.heard_at, attempts.claimed_at) < :since)
        ORDER BY attempts.claimed_at LIMIT :count""",
        organization_id=organization_id,
        since=since,
        count=count,
    )


async def modules_in_doubt(tx: Tx, organization_id: str, count: int) -> list[Row]:
    """Return modules in doubt, with the number of the last job that was cut short and the time of that.

    Few attempts are in doubt. `organization_id || ''` keeps the databases from reading every module of the organization.
    """
    return await tx.all(
        """SELECT modules.id, modules.path, max(jobs.number) AS number, max(attempts.ended_at) AS since
        FROM attempts JOIN jobs ON jobs.id = attempts.job_id JOIN modules ON modules.id = jobs.module_id
        WHERE attempts.is_in_doubt AND modules.organization_id || '' = :organization_id
        GROUP BY modules.id, modules.path ORDER BY modules.path LIMIT :count""",
        organization_id=organization_id,
        count=count,
    )


async def modules_with_quarantine(tx: Tx, organization_id: str, count: int) -> list[Row]:
    """Return modules with states in quarantine, how many, and since when. There are few, as of modules in doubt."""
    return await tx.all(
        """SELECT modules.id, modules.path, count(*) AS states, min(states.created_at) AS since
        FROM states JOIN modules ON modules.id = states.module_id
        WHERE states.status = 'quarantined' AND modules.organization_id || '' = :organization_id
        GROUP BY modules.id, modules.path ORDER BY modules.path LIMIT :count""",
        organization_id=organization_id,
        count=count,
    )


async def module_paths(tx: Tx, job_ids: Collection[str]) -> dict[str, str]:
    """Return the paths of the modules of these jobs."""
    rows = await tx.each_id(
        "SELECT jobs.id, modules.path FROM batch JOIN jobs ON jobs.id = batch.id JOIN modules ON modules.id = jobs.module_id",
        sorted(job_ids),
    )
    return {row["id"]: row["path"] for row in rows}


async def plan_summaries(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return the summaries of the plans of these jobs."""
    return await tx.each_id("SELECT jobs.id, jobs.plan FROM batch JOIN jobs ON jobs.id = batch.id", job_ids)
