"""What the scheduler reads: the queue, and which runners take jobs."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterable, Container, Iterable, Mapping, Sequence
from typing import LiteralString

from terracrew.errors import Damaged
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, only_destroys
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.history.store import IS_HELD
from terracrew.server.jobs.queue_reads import first_of_module
from terracrew.server.runners import eligibility
from terracrew.server.runners.eligibility import GRACE_SECONDS
from terracrew.server.scheduling.assignment_view import groups_above
from terracrew.server.scheduling.queue import Waiting
from terracrew.server.tree.inputs import reads as input_reads

PAGE_ROWS = 200
"""The rows of one read. SQLite is read on the event loop, and this many rows take a millisecond."""
MAX_JOBS_PER_READ = 100
# The subquery of the makers starts with the jobs of the batch, because SQLite would otherwise read every attempt for each job.
# The status is compared in an expression, so that PostgreSQL finds the jobs by their ids and does not read the whole queue for each.
_QUEUED: LiteralString = f"""
SELECT jobs.id, jobs.number, jobs.attempt, jobs.organization_id, jobs.module_id, modules.path AS module_path, groups.path AS group_path,
    modules.engine, jobs.priority, jobs.queued_at, coalesce(made.runner_id, modules.runner_id) AS runner_id,
    modules.runner_instance_name, made.instance_id AS made_by, modules.tags, {eligibility.WANTED_VERSION} AS engine_version,
    jobs.dispatcher AS choice, {eligibility.HAS_MERGE} AS has_merge
FROM batch JOIN jobs ON jobs.id = batch.job_id JOIN modules ON modules.id = jobs.module_id
JOIN groups ON groups.id = modules.group_id
LEFT JOIN (SELECT jobs.id AS job_id, made.runner_id, made.instance_id FROM batch JOIN jobs ON jobs.id = batch.job_id
    CROSS JOIN {eligibility.MAKER} WHERE {eligibility.OF_JOB}) AS made ON made.job_id = jobs.id
WHERE jobs.status || '' = 'QUEUED'"""
_QUEUE = "SELECT id, attempt, plan_attempt FROM jobs WHERE status = 'QUEUED' AND id > :last ORDER BY id LIMIT :count"
_IS_NEXT_DESTROYING: LiteralString = f"""EXISTS (SELECT 1 FROM jobs WHERE jobs.id = {first_of_module("inputs.place_id")}
    AND {only_destroys("jobs")})"""
_TAKES_JOBS: LiteralString = "NOT instances.is_draining AND NOT runners.is_draining AND NOT runners.is_disabled"
_IN_GRACE: LiteralString = "NOT instances.is_connected AND instances.disconnected_at > :since"
_ONLINE_OF_RUNNER: LiteralString = f"""
SELECT instances.name, instances.is_connected FROM instances JOIN runners ON runners.id = instances.runner_id
WHERE runners.id = :id AND {_TAKES_JOBS} AND instances.is_connected
UNION SELECT instances.name, instances.is_connected FROM instances JOIN runners ON runners.id = instances.runner_id
WHERE runners.id = :id AND {_TAKES_JOBS} AND {_IN_GRACE}"""
_ONLINE: LiteralString = f"""
SELECT instances.id, instances.runner_id, instances.name FROM instances JOIN runners ON runners.id = instances.runner_id
WHERE instances.is_connected AND {_TAKES_JOBS} AND instances.id > :last ORDER BY instances.id LIMIT :count"""
# `id || ''` keeps the databases from reading all instances that ever disconnected in the order of their ids: few did so lately.
_ONLINE_A_MOMENT_AGO: LiteralString = f"""
SELECT instances.id, instances.runner_id, instances.name FROM instances JOIN runners ON runners.id = instances.runner_id
WHERE {_IN_GRACE} AND {_TAKES_JOBS} AND instances.id || '' > :last ORDER BY instances.id || '' LIMIT :count"""
_CONNECTED_OF: LiteralString = f"""
SELECT instances.id, instances.runner_id, instances.name FROM batch JOIN runners ON runners.id = batch.id
JOIN instances ON instances.runner_id = runners.id AND instances.is_connected WHERE {_TAKES_JOBS}"""
_WAKEABLE: LiteralString = "SELECT id FROM runners WHERE can_wake AND NOT is_disabled AND NOT is_draining"
_CAPS: LiteralString = "SELECT organization_id, path, max_running_jobs FROM groups WHERE max_running_jobs IS NOT NULL"
_RUNNING: LiteralString = f"SELECT id, organization_id, module_path FROM jobs WHERE status IN {ACTIVE_STATUSES}"


async def changed(db: Database, known: Mapping[str, int]) -> set[str]:
    """Return the jobs whose queued attempt is not the known one, those that are no longer queued, and those with a kept plan.

    A kept plan binds its job to a runner until the state moves or the runner is disabled: neither changes the job.
    """
    unseen = dict(known)
    found: set[str] = set()
    async for page in _pages(db, _QUEUE):
        for row in page:
            if unseen.pop(row["id"], None) != row["attempt"] or row["plan_attempt"] is not None:
                found.add(row["id"])
    return found | unseen.keys()


async def wakeable(db: Database) -> set[str]:
    """Return the cloud-hosted runners that can be woken. Without one, this reads an empty index."""
    rows = await db.read(lambda tx: tx.all(_WAKEABLE))
    return {row["id"] for row in rows}


async def connected_elsewhere(db: Database, here: Container[str]) -> dict[str, set[str]]:
    """Return the names of the connected instances that take jobs, by their runners, without those with these ids."""
    return await _names(_pages(db, _ONLINE), here)


async def connected_a_moment_ago(db: Database, here: Container[str]) -> dict[str, set[str]]:
    """Return the names of the instances that count as online for a while after they disconnected, in the same way."""
    return await _names(_pages(db, _ONLINE_A_MOMENT_AGO), here)


async def connected_of(db: Database, runner_ids: Iterable[str], here: Container[str]) -> dict[str, set[str]]:
    """Return what `connected_elsewhere` does, for these runners only."""
    wanted = sorted(runner_ids)

    async def batches() -> AsyncGenerator[list[Row]]:
        for start in range(0, len(wanted), PAGE_ROWS):
            rows = [(each,) for each in wanted[start : start + PAGE_ROWS]]
            yield await db.read(lambda tx, rows=rows: tx.each(_CONNECTED_OF, {"id": "text"}, rows))

    return await _names(batches(), here)


async def _names(pages: AsyncIterable[list[Row]], here: Container[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    async for page in pages:
        for row in page:
            if row["id"] not in here:
                found[row["runner_id"]].add(row["name"])
    return found


async def queued(tx: Tx, job_ids: Sequence[str]) -> tuple[list[Waiting], dict[str, Damaged]]:
    """Return the jobs among these that are queued, and by id those that are queued and cannot be read."""
    found, unreadable = list[Waiting](), dict[str, Damaged]()
    for row in await tx.each(_QUEUED, {"job_id": "text"}, [(job_id,) for job_id in job_ids]):
        try:
            found.append(row_to(Waiting, row))
        except Damaged as error:
            unreadable[row["id"]] = error
    return found, unreadable


async def busy(tx: Tx) -> tuple[set[str], dict[str, set[str]]]:
    """Return the modules with an active job, a lock of a person, a state in quarantine, a missing dependency or a change that is
    held, and the active jobs of each instance."""
    active = await tx.all(f"SELECT id, module_id, instance_id FROM jobs WHERE status IN {ACTIVE_STATUSES}")
    held: dict[str, set[str]] = defaultdict(set)
    for row in active:
        held[row["instance_id"]].add(row["id"])
    waiting = await tx.all("SELECT module_id FROM states WHERE status = 'quarantined'")
    dependent = await tx.all(
        f"SELECT place_id AS module_id FROM inputs WHERE {input_reads.holds_jobs(':now', _IS_NEXT_DESTROYING)}",
        now=tx.now,
    )
    unreleased = await tx.all(f"SELECT module_id FROM jobs WHERE status = 'QUEUED' AND type <> 'PLAN' AND {IS_HELD}")
    locked = await tx.all("SELECT module_id FROM module_locks")
    return {row["module_id"] for row in (*active, *waiting, *dependent, *unreleased, *locked)}, held


async def online_of_runner(tx: Tx, runner_id: str) -> tuple[set[str], set[str]]:
    """Return the names of the runner's instances that are online for precedence: the connected ones, and those of a moment ago."""
    rows = await tx.all(_ONLINE_OF_RUNNER, id=runner_id, since=tx.now - GRACE_SECONDS)
    connected = {row["name"] for row in rows if row["is_connected"]}
    return connected, {row["name"] for row in rows} - connected


async def can_wake(tx: Tx, runner_id: str) -> bool:
    """Return whether this runner can be woken."""
    return await tx.one(_WAKEABLE + " AND id = :id", id=runner_id) is not None


async def caps(tx: Tx) -> dict[str, int]:
    """Return the groups that limit how many jobs run at once, as places, each with its limit."""
    return {f"{row['organization_id']}/{row['path']}": row["max_running_jobs"] for row in await tx.all(_CAPS)}


async def running(tx: Tx) -> dict[str, list[str]]:
    """Return the jobs that run, each with the groups above it as places."""
    found: dict[str, list[str]] = {}
    for row in await tx.all(_RUNNING):
        group_path = row["module_path"].rpartition("/")[0]
        found[row["id"]] = list(groups_above(row["organization_id"], group_path))
    return found


async def _pages(db: Database, sql: LiteralString) -> AsyncGenerator[list[Row]]:
    """Yield all rows in pages. Other tasks run between two pages, so a long queue or a large fleet does not block the event loop.

    A statement may use `:since`, the time since which a disconnected instance counts as online.
    """
    last = ""
    while True:
        page = await db.read(
            lambda tx, last=last: tx.all(sql, last=last, count=PAGE_ROWS, since=tx.now - GRACE_SECONDS)
        )
        yield page
        if len(page) < PAGE_ROWS:
            return
        last = page[-1]["id"]
        await asyncio.sleep(0)
