"""SQL fragments that say which instances may get a job. The pure function `scheduling.select` says the same; a test compares the two.

The conditions name the tables `jobs`, `modules`, `runners` and `instances`, which the statement joins. The statement gives the
time since which a disconnected instance still counts as online as `batch.grace_since`.
"""

from typing import Literal, LiteralString

from terracrew.server.db.statements.fragments import ACTIVE_STATUSES

Precedence = Literal["online", "configured"]
"""When a tier of runners counts as available: if one of them is online, or if there is one at all."""
GRACE_SECONDS = 10.0
"""For precedence, an instance counts as online for this long after its connection was closed, because it may be reconnecting."""


def covers(module: LiteralString) -> LiteralString:
    """Return the condition that an assignment covers a module."""
    return f"""(assignments.place_id = {module}.id OR assignments.kind = 'group' AND (assignments.path = ''
    OR substr({module}.path, 1, length(assignments.path) + 1) = assignments.path || '/'))"""


def is_assigned(runner: LiteralString, module: LiteralString) -> LiteralString:
    """Return the condition that a module may use a runner, because of an assignment or because the runner is shared.

    `organization_id || ''` keeps SQLite from reading the assignments of all runners of the organization.
    """
    return f"""({runner}.organization_id IS NULL OR EXISTS (
    SELECT 1 FROM assignments
    WHERE assignments.runner_id = {runner}.id AND assignments.organization_id || '' = {module}.organization_id AND {covers(module)}))"""


IS_ASSIGNED: LiteralString = is_assigned("runners", "modules")
MAKER: LiteralString = f"""plans
    JOIN attempts AS made ON made.job_id = plans.made_job_id AND made.number = plans.made_attempt
    JOIN runners AS maker ON maker.id = made.runner_id AND NOT maker.is_disabled AND maker.removing_since IS NULL
    JOIN modules AS own ON own.state_version = plans.state_version AND (own.runner_id IS NULL OR own.runner_id = maker.id)
        AND {is_assigned("maker", "own")}"""
"""The runner that made the plan that a job continues with: no other may have the job while the plan can be used there."""
OF_JOB: LiteralString = "plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt AND own.id = jobs.module_id"
"""Joins `MAKER` to the job."""

SLOTS: LiteralString = (
    "CASE WHEN instances.capacity < runners.max_jobs THEN instances.capacity ELSE runners.max_jobs END"
)
"""How many jobs an instance may have at once."""
HAS_FREE_SLOT: LiteralString = f"""(
    SELECT count(*) FROM jobs AS held WHERE held.instance_id = instances.id AND held.status IN {ACTIVE_STATUSES}) < {SLOTS}"""
IS_PIN: LiteralString = """(modules.runner_id IS NULL OR modules.runner_id = runners.id)
    AND (modules.runner_instance_name IS NULL OR modules.runner_instance_name = instances.name)"""
"""Whether the module names this runner and this instance, or none."""


WANTED_VERSION: LiteralString = (
    "CASE WHEN jobs.pinned_engine_version <> '' THEN jobs.pinned_engine_version ELSE modules.engine_version END"
)
"""The range of versions of the engine that a job may run with; empty for any. A job whose range was resolved keeps the version."""


HAS_MERGE: LiteralString = "substr(jobs.source, length(jobs.source) - 1) = '}}'"
"""Whether the source of a job is the result of a merge. That is its last field, and no other source ends with two braces."""
KNOWS_SOURCE: LiteralString = f"(instances.knows_merge_results OR NOT {HAS_MERGE})"
"""Whether an instance can be given the source of a job. Runners of 0.1.0 know no merge results."""


IS_NEWEST: LiteralString = """instances.id = (
    SELECT max(own.id) FROM instances AS own WHERE own.runner_id = runners.id)"""
"""Whether an instance is the newest one of its runner. Ids sort by the time of their creation."""


def has_engine(engine: LiteralString, wanted: LiteralString) -> LiteralString:
    """Return the condition that an instance has announced an engine in a wanted version, or installs it when it is needed.

    The column `engines` holds a JSON object without spaces. `server/engines` writes the two tables: `position` orders releases,
    an empty version stands for those that are installed, and the intervals of a range are rows.
    """
    return f"""({wanted} = '' AND replace(instances.engines, '"' || {engine} || '":', '') <> instances.engines OR EXISTS (
    SELECT 1 FROM instance_engines AS have WHERE have.instance_id = instances.id AND have.engine = {engine}
        AND ({wanted} = '' OR EXISTS (
            SELECT 1 FROM engine_version_ranges AS ranges WHERE ranges.engine = {engine} AND ranges.wanted = {wanted}
                AND (have.version = ranges.version OR have.position >= ranges.low AND have.position < ranges.high
                    OR have.version = '' AND ranges.installs IS NOT NULL)))))"""


def next_has_engine(engine: LiteralString, wanted: LiteralString) -> LiteralString:
    """Return the condition that the next instance of a runner has an engine: the newest one announced it, or there was none yet."""
    return f"""(NOT EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id)
    OR EXISTS (SELECT 1 FROM instances WHERE {IS_NEWEST} AND {has_engine(engine, wanted)}))"""


def may_have_engine(engine: LiteralString, wanted: LiteralString) -> LiteralString:
    """Return the condition that an instance has the engine of a job, or that the job asks for something of a dispatcher.

    SQL cannot match the patterns of allow-lists. So the claim of such a job is checked by `engines.resolve` in the transaction
    of the claim, and undone if the instance does not offer what the job asks for.
    """
    return f"(jobs.dispatcher <> '{{}}' OR {has_engine(engine, wanted)})"


_TAG_CHARACTERS: LiteralString = "'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-'"


def has_tags(tags: LiteralString) -> LiteralString:
    """Return the condition that a runner has all of these tags, which are a JSON list without spaces, like those of the runner.

    The two databases have no function for JSON in common. So a recursive relation splits the list: each step takes the
    characters of one tag, and continues behind the three characters `","` that follow it.
    """
    return f"""({tags} = '[]' OR NOT EXISTS (
    WITH RECURSIVE wanted (tag, rest) AS (
        SELECT '', substr({tags}, 3)
        UNION ALL SELECT substr(rest, 1, length(rest) - length(ltrim(rest, {_TAG_CHARACTERS}))),
            substr(ltrim(rest, {_TAG_CHARACTERS}), 4)
        FROM wanted WHERE rest <> '')
    SELECT 1 FROM wanted WHERE tag <> '' AND replace(runners.tags, '"' || tag || '"', '') = runners.tags))"""


_IS_WANTED_SEAT: LiteralString = """seat.runner_id = rival.id AND NOT seat.is_draining
    AND (modules.runner_instance_name IS NULL OR seat.name = modules.runner_instance_name)"""
_HAS_ONLINE: LiteralString = f"""NOT rival.is_disabled AND NOT rival.is_draining AND (
    EXISTS (SELECT 1 FROM instances AS seat WHERE {_IS_WANTED_SEAT} AND seat.is_connected)
    OR EXISTS (SELECT 1 FROM instances AS seat WHERE {_IS_WANTED_SEAT} AND NOT seat.is_connected
        AND seat.disconnected_at > batch.grace_since)
    OR rival.can_wake AND modules.runner_instance_name IS NULL)"""
"""Whether a runner has an instance that is online, or was a moment ago, and has the name that the module may ask for, or can be
woken. A name cannot be woken."""
_IS_AVAILABLE: dict[Precedence, LiteralString] = {
    "online": _HAS_ONLINE,
    "configured": f"(modules.runner_instance_name IS NULL OR {_HAS_ONLINE})",
}


_IS_MINE: LiteralString = "SELECT 1 FROM assignments AS mine WHERE mine.runner_id = runners.id AND mine.place_id ="


def is_of_nearest_tier(precedence: Precedence) -> LiteralString:
    """Return the condition that no runner of a nearer tier is available, or that the job is bound to one runner anyway.

    `places` has the module, its group and the groups above, up to the first one that the runner itself is assigned to.
    """
    return f"""(modules.runner_id IS NOT NULL
    OR EXISTS (SELECT 1 FROM {MAKER} WHERE {OF_JOB})
    OR NOT EXISTS (
        WITH RECURSIVE places (id, above_id) AS (
            SELECT modules.id, modules.group_id WHERE NOT EXISTS ({_IS_MINE} modules.id)
            UNION ALL SELECT groups.id, groups.parent_id FROM places JOIN groups ON groups.id = places.above_id
            WHERE NOT EXISTS ({_IS_MINE} groups.id))
        SELECT 1 FROM places JOIN assignments AS nearer ON nearer.place_id = places.id
        JOIN runners AS rival ON rival.id = nearer.runner_id WHERE {_IS_AVAILABLE[precedence]}))"""


HAS_CAPS: LiteralString = """EXISTS (SELECT 1 FROM groups AS capped
    WHERE capped.organization_id = modules.organization_id AND capped.max_running_jobs IS NOT NULL)"""
"""Whether any group of a module's organization limits how many jobs run at once."""


def running_below(organization_id: LiteralString, path: LiteralString) -> LiteralString:
    """Return an expression for the number of jobs that run in and below the group with this path. The root has an empty path.

    The claim writes the path of the module into the row of the job, so that an index holds the running jobs in the order of
    the tree, and only those below the group are read: `0` is the character after `/`.
    """
    running: LiteralString = f"""SELECT count(*) FROM jobs AS running
        WHERE running.organization_id = {organization_id} AND running.status IN {ACTIVE_STATUSES}"""
    return f"""CASE WHEN {path} = '' THEN ({running}) ELSE ({running}
        AND running.module_path > ({path} || '/') COLLATE "C" AND running.module_path < ({path} || '0') COLLATE "C") END"""


IS_BELOW_CAPS: LiteralString = f"""(NOT {HAS_CAPS} OR NOT EXISTS (
    WITH RECURSIVE above (parent_id, path, max_running_jobs) AS (
        SELECT groups.parent_id, groups.path, groups.max_running_jobs FROM groups WHERE groups.id = modules.group_id
        UNION ALL SELECT groups.parent_id, groups.path, groups.max_running_jobs
        FROM above JOIN groups ON groups.id = above.parent_id)
    SELECT 1 FROM above WHERE above.max_running_jobs IS NOT NULL
        AND above.max_running_jobs <= {running_below("modules.organization_id", "above.path")}))"""
"""Whether every group above a module may have one more running job. A job that waits for an approval does not run."""
CAPPED_GROUPS: LiteralString = """WITH RECURSIVE above (job_id, id, parent_id) AS (
    SELECT jobs.id, groups.id, groups.parent_id FROM batch JOIN jobs ON jobs.id = batch.job_id
    JOIN modules ON modules.id = jobs.module_id JOIN groups ON groups.id = modules.group_id
    UNION ALL SELECT above.job_id, groups.id, groups.parent_id FROM above JOIN groups ON groups.id = above.parent_id)
SELECT above.job_id, capped.organization_id, capped.path, capped.max_running_jobs
FROM above JOIN groups AS capped ON capped.id = above.id WHERE capped.max_running_jobs IS NOT NULL"""
"""Each job of the batch with each group above it that limits how many jobs run at once."""
