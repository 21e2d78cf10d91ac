"""Writes a large organization into a database by bulk SQL, for benchmarks of lists and pages.

The connected instances are rows of another server that had contact with them just now, so that no process has to hold
thousands of connections while lists are measured. `heard_server` continues to record their heartbeats.
"""

from typing import LiteralString

from terracrew import ids
from terracrew.server.db.seam import Database, Param, Tx
from tests.builders.job_rows import change_organizations

GROUPS, TEAMS, MODULES, JOBS, QUEUED = 2_000, 40, 20_000, 200_000, 10_000
RUNNERS, OLD_INSTANCES, STATES, AUDIT = 5_000, 20_000, 100_000, 1_000_000
SMALL_GROUP = "team-9/project-48"
"""The group that the reader owns."""
NUMBERS: LiteralString = """WITH RECURSIVE n (i) AS (
    SELECT CAST(:first AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < CAST(:last AS bigint)) """
_ZEROS: LiteralString = "'00000000000000000000000000000000'"
MAX_ROWS_AT_ONCE = 50_000


def row_id(kind: LiteralString, number: LiteralString = "n.i") -> LiteralString:
    """Return an id that sorts by its number, and before every id that is created later."""
    return f"'{kind}_' || substr({_ZEROS} || ({number}), length(CAST(({number}) AS text)) + 1)"


async def fill(db: Database, organization_id: str, reader_id: str) -> None:
    """Write everything, in one transaction for each table."""
    row = await db.read(
        lambda tx: tx.one("SELECT id FROM groups WHERE organization_id = :id AND path = ''", id=organization_id)
    )
    assert row is not None
    own: dict[str, Param] = {"organization_id": organization_id}
    await fill_tree(db, organization_id, row["id"])
    await fill_runners(db, organization_id, row["id"])
    await run_in_batches(db, _JOBS, JOBS, modules=MODULES, queued_from=JOBS - QUEUED, **own)
    await run_in_batches(db, _ATTEMPTS, JOBS - QUEUED)
    await run_in_batches(db, _STATES, STATES, modules=MODULES)
    await run_in_batches(db, _AUDIT, AUDIT, **own)

    async def rest(tx: Tx) -> None:
        await change_organizations(tx, organization_id, next_job_number=JOBS + 1)
        await tx.run(
            """INSERT INTO role_bindings (id, organization_id, principal_kind, principal_id, role, place_kind, group_id, path,
                created_by, created_at)
            SELECT CAST(:id AS text), organization_id, 'user', CAST(:reader_id AS text), 'owner', 'group', id, path, 'bench',
                CAST(:now AS double precision)
            FROM groups WHERE organization_id = :organization_id AND path = :path""",
            id=ids.new("rol"),
            reader_id=reader_id,
            organization_id=organization_id,
            path=SMALL_GROUP,
            now=tx.now,
        )
        await tx.run("UPDATE instances SET heard_at = :now WHERE is_connected", now=tx.now)

    await db.write(rest)


async def fill_tree(db: Database, organization_id: str, root_id: str) -> None:
    """Write the groups and the modules."""
    await run_in_batches(db, _TEAMS, TEAMS, organization_id=organization_id, root=root_id)
    await run_in_batches(db, _GROUPS, GROUPS - TEAMS, teams=TEAMS, organization_id=organization_id)
    await run_in_batches(db, _MODULES, MODULES, groups=GROUPS - TEAMS, organization_id=organization_id)


async def fill_runners(db: Database, organization_id: str, root_id: str) -> None:
    """Write the runners, each with a connected instance, and the instances that disconnected long ago."""
    own: dict[str, Param] = {"organization_id": organization_id, "root": root_id, "groups": GROUPS - TEAMS}
    await run_in_batches(db, _RUNNERS, RUNNERS, **own)
    await run_in_batches(db, _ASSIGNMENTS, RUNNERS, **own)
    await run_in_batches(db, _CONNECTED, RUNNERS)
    await run_in_batches(db, _OLD, OLD_INSTANCES, runners=RUNNERS)


async def run_in_batches(db: Database, sql: LiteralString, count: int, **params: Param) -> None:
    """Write `count` rows in batches, so that no statement takes longer than the server allows."""
    for first in range(1, count + 1, MAX_ROWS_AT_ONCE):
        last = min(count, first + MAX_ROWS_AT_ONCE - 1)
        await db.write(
            lambda tx, first=first, last=last: tx.run(
                sql, first=first, last=last, **({"now": tx.now} if ":now" in sql else {}), **params
            )
        )


_SOURCE: LiteralString = """'{"kind":"local","path":"/nowhere","subdirectory":""}'"""
_TEAMS: LiteralString = f"""INSERT INTO groups (id, organization_id, parent_id, name, path, depth, created_at)
{NUMBERS}SELECT {row_id("grp")}, CAST(:organization_id AS text), CAST(:root AS text), 'team-' || i, 'team-' || i, 1,
    CAST(:now AS double precision) FROM n"""
_GROUPS: LiteralString = f"""INSERT INTO groups (id, organization_id, parent_id, name, path, depth, created_at)
{NUMBERS}SELECT {row_id("grp", "100000 + n.i")}, CAST(:organization_id AS text), {row_id("grp", "n.i % :teams + 1")}, 'project-' || i,
    'team-' || (n.i % :teams + 1) || '/project-' || i, 2, CAST(:now AS double precision) FROM n"""
# Every twentieth module needs an engine that nobody has: the queued jobs are theirs.
_MODULES: LiteralString = f"""INSERT INTO modules (id, organization_id, group_id, name, path, engine, source, state_version, created_at)
{NUMBERS}SELECT {row_id("mod")}, CAST(:organization_id AS text), groups.id, 'module-' || i, groups.path || '/module-' || i,
    CASE WHEN i % 20 = 0 THEN 'pulumi' ELSE 'tofu' END, {_SOURCE}, 5, CAST(:now AS double precision)
FROM n JOIN groups ON groups.id = {row_id("grp", "100000 + 1 + n.i % :groups")}"""
_JOBS: LiteralString = f"""INSERT INTO jobs (id, organization_id, module_id, number, type, status, source, created_by,
    created_at, queued_at,
    claimed_at, started_at, finished_at, runner_id, instance_id)
{NUMBERS}SELECT {row_id("job")}, CAST(:organization_id AS text),
    CASE WHEN i > :queued_from THEN {row_id("mod", "20 * (1 + n.i % (:modules / 20))")} ELSE {row_id("mod", "1 + n.i % :modules")} END,
    i, CASE WHEN i % 3 = 0 THEN 'APPLY' ELSE 'PLAN' END,
    CASE WHEN i > :queued_from THEN 'QUEUED' WHEN i % 10 = 0 THEN 'FAILED' WHEN i % 501 = 0 THEN 'CANCELED' ELSE 'SUCCEEDED' END,
    {_SOURCE}, 'bench', CAST(:now AS double precision) - 300000 + i, CAST(:now AS double precision) - 300000 + i,
    CASE WHEN i > :queued_from THEN NULL ELSE CAST(:now AS double precision) - 300000 + i END,
    CASE WHEN i > :queued_from THEN NULL ELSE CAST(:now AS double precision) - 300000 + i END,
    CASE WHEN i > :queued_from THEN NULL ELSE CAST(:now AS double precision) - 299990 + i END,
    CASE WHEN i > :queued_from THEN NULL ELSE {row_id("rnr", "1 + n.i % 5000")} END,
    CASE WHEN i > :queued_from THEN NULL ELSE {row_id("ins", "1 + n.i % 5000")} END
FROM n"""
_ATTEMPTS: LiteralString = """INSERT INTO attempts (job_id, number, runner_id, instance_id, hub_sha256, api_sha256, state_key, claimed_at,
    started_at, ended_at, outcome, is_change_ended, has_result)
SELECT id, 1, runner_id, instance_id, 'hub' || id, 'api' || id, CAST('' AS bytea), claimed_at, claimed_at, finished_at,
    'succeeded', true, true
FROM jobs WHERE number BETWEEN CAST(:first AS bigint) AND CAST(:last AS bigint)"""
# Two runners of five serve the whole organization, the others one group each.
_RUNNERS: LiteralString = f"""INSERT INTO runners (id, organization_id, group_id, name, path, type, worker_token_sha256,
    max_jobs, created_at)
{NUMBERS}SELECT {row_id("rnr")}, CAST(:organization_id AS text), coalesce(groups.id, CAST(:root AS text)), 'runner-' || i,
    CASE WHEN groups.id IS NULL THEN 'runner-' || i ELSE groups.path || '/runner-' || i END, 'self-hosted', 'token' || i, 10,
    CAST(:now AS double precision)
FROM n LEFT JOIN groups ON i % 5 > 1 AND groups.id = {row_id("grp", "100000 + 1 + n.i % :groups")}"""
_ASSIGNMENTS: LiteralString = f"""INSERT INTO assignments (runner_id, place_id, kind, organization_id, path, created_at)
{NUMBERS}SELECT {row_id("rnr")}, coalesce(groups.id, CAST(:root AS text)), 'group', CAST(:organization_id AS text),
    coalesce(groups.path, ''),
    CAST(:now AS double precision)
FROM n LEFT JOIN groups ON i % 5 > 1 AND groups.id = {row_id("grp", "100000 + 1 + n.i % :groups")}"""
_CONNECTED: LiteralString = f"""INSERT INTO instances (id, runner_id, name, key_sha256, epoch, server_id, version, capacity,
    engines, is_connected,
    is_draining, connected_at, heard_at)
{NUMBERS}SELECT {row_id("ins")}, {row_id("rnr")}, 'one', '', 1, 'srv_other', '0.1.0', 10, '{{"tofu":"1.12.6"}}', true, false,
    CAST(:now AS double precision), CAST(:now AS double precision) FROM n"""
# Half of them are of one runner, as pods leave them behind.
_OLD: LiteralString = f"""INSERT INTO instances (id, runner_id, name, key_sha256, epoch, server_id, version, capacity, engines,
    is_connected,
    is_draining, connected_at, disconnected_at, heard_at)
{NUMBERS}SELECT {row_id("ins", "100000 + n.i")}, {row_id("rnr", "CASE WHEN n.i % 2 = 0 THEN 1 ELSE 1 + n.i % :runners END")},
    'old-' || i, '', 1, NULL, '0.1.0', 10, '{{"tofu":"1.12.6"}}', false, false, CAST(:now AS double precision) - 90000,
    CAST(:now AS double precision) - 80000 + i, CAST(:now AS double precision) - 80000 + i FROM n"""
_STATES: LiteralString = f"""INSERT INTO states (id, module_id, version, status, job_id, attempt, event, origin, serial, lineage,
    sha256, size,
    content, created_at)
{NUMBERS}SELECT {row_id("sta")}, {row_id("mod", "1 + n.i % :modules")}, 1 + (i - 1) / :modules,
    CASE WHEN (i - 1) / :modules = 4 THEN 'current' ELSE 'superseded' END, {row_id("job")}, 1, i, 'engine', 1 + (i - 1) / :modules,
    'lineage',
    'sha256', 100, CAST('x' AS bytea), CAST(:now AS double precision) - 90000 FROM n"""
_AUDIT: LiteralString = f"""INSERT INTO audit (id, organization_id, created_at, actor_kind, actor_id, actor_name, action,
    target_kind, target_id, details, path, stack)
{NUMBERS}SELECT {row_id("aud")}, CAST(:organization_id AS text), CAST(:now AS double precision) - 2000000 + i,
    'user', {row_id("usr", "1 + n.i % 5000")}, 'user-' || (1 + n.i % 5000),
    CASE WHEN i % 50 = 0 THEN 'role.grant' WHEN i % 3 = 0 THEN 'job.approve' ELSE 'job.create' END, 'job',
    {row_id("job", "1 + n.i % 200000")}, '{{"module":"somewhere"}}',
    'team-' || (n.i % 1960 % 40 + 1) || '/project-' || (n.i % 1960), 'team-' || (n.i % 1960 % 40 + 1) FROM n"""
