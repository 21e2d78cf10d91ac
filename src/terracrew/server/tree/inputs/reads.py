"""Reads the inputs that apply to a place: its own, and those of all groups above it."""

from collections.abc import Iterable, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements import fragments
from terracrew.server.db.statements.fragments import IS_OPEN_JOB
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.tree.inputs.model import Input, PlacedInput
from terracrew.server.tree.inputs.store import INPUTS

MAY_READ_STATES: LiteralString = "('operator', 'approver', 'owner')"
"""The roles that include the right to read states."""
IS_WAITED_FOR: LiteralString = f"""inputs.is_current AND inputs.source_module_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM modules AS source WHERE source.id = inputs.source_module_id AND source.path <> source.id)
    AND NOT EXISTS (SELECT 1 FROM outputs WHERE outputs.module_id = inputs.source_module_id AND outputs.created_at = (
            SELECT max(newest.created_at) FROM outputs AS newest WHERE newest.module_id = inputs.source_module_id)
        AND NOT EXISTS (SELECT 1 FROM jobs AS ended WHERE ended.module_id = inputs.source_module_id
            AND ended.status = 'SUCCEEDED' AND ended.type <> 'PLAN' AND ended.finished_at > outputs.created_at
            AND ended.id <> outputs.job_id)
        AND NOT {fragments.is_destroyed_after("outputs.module_id", "outputs.created_at")})"""
"""The condition that an input is an output of a module that exists and whose outputs are not known: it was not applied yet, it was
destroyed since, or the outputs of its last change could not be kept. Jobs of the module that needs it wait."""
HAS_OLDER_OUTPUTS: LiteralString = f"""EXISTS (SELECT 1 FROM outputs WHERE outputs.module_id = inputs.source_module_id
    AND NOT {fragments.is_destroyed_after("outputs.module_id", "outputs.created_at")})"""
"""The condition that the module of such an input has outputs of a job before its last change."""

_HAD_OUTPUTS: LiteralString = "EXISTS (SELECT 1 FROM outputs WHERE outputs.module_id = inputs.source_module_id)"
_UP: LiteralString = """
    UNION ALL SELECT above.start_id, groups.id, groups.parent_id, groups.path, above.level + 1
    FROM above JOIN groups ON groups.id = above.parent_id)"""
_PLACED: LiteralString = f"""
SELECT above.start_id, above.path, above.level, {INPUTS.columns},
    (SELECT source.path FROM modules AS source WHERE source.id = inputs.source_module_id AND source.path <> source.id)
        AS source_path
FROM above JOIN inputs ON inputs.place_id = above.place_id AND inputs.is_current"""
_ABOVE: LiteralString = "WITH RECURSIVE above (start_id, place_id, parent_id, path, level) AS ("
_MODULE: LiteralString = "SELECT modules.id, modules.id, modules.group_id, modules.path, 0"
_OF_MODULES: LiteralString = f"""{_ABOVE}
    {_MODULE} FROM batch JOIN modules ON modules.id = batch.id
{_UP}{_PLACED}"""
_OF_MODULES_WITH_JOBS: LiteralString = f"""{_ABOVE}
    {_MODULE} FROM batch JOIN jobs ON jobs.id = batch.id JOIN modules ON modules.id = jobs.module_id
{_UP}{_PLACED}"""
_OF_GROUP: LiteralString = f"""{_ABOVE}
    SELECT groups.id, groups.id, groups.parent_id, groups.path, 0 FROM groups WHERE groups.id = :id
{_UP}{_PLACED}"""
_NEEDED: LiteralString = """WITH RECURSIVE needed (start_id, id) AS (
    SELECT triggered_modules.module_id, triggered_modules.module_id FROM triggered_modules
        WHERE CAST(:module_id AS text) IS NULL OR triggered_modules.module_id = CAST(:module_id AS text)
    UNION SELECT needed.start_id, inputs.source_module_id FROM needed JOIN inputs ON inputs.place_id = needed.id
        AND inputs.is_current AND inputs.source_module_id IS NOT NULL)"""
"""Defines `needed`: each of these modules with itself and everything that it needs, directly or not."""
_HAS_OPEN_CHANGE: LiteralString = f"""EXISTS (
    SELECT 1 FROM jobs WHERE jobs.module_id = needed.id AND jobs.type <> 'PLAN' AND {IS_OPEN_JOB})"""
_IS_AHEAD_IN_RUN: LiteralString = """EXISTS (SELECT 1 FROM group_run_modules
    WHERE group_run_modules.module_id = needed.id AND group_run_modules.status IN ('WAITING', 'RUNNING'))"""
_IS_TRIGGERED: LiteralString = """EXISTS (
    SELECT 1 FROM triggered_modules AS above WHERE above.module_id = needed.id)"""
_HAS_FAILED: LiteralString = f"""EXISTS (SELECT 1 FROM jobs AS newest WHERE newest.status <> 'SUCCEEDED' AND newest.id = (
    SELECT max(jobs.id) FROM jobs WHERE jobs.module_id = needed.id AND jobs.type <> 'PLAN'
        AND NOT (jobs.status = 'SUCCEEDED' AND {fragments.is_partial("jobs")})))"""
"""A job that only changed a part of the module does not make good that the last one for all of it has failed."""
_READY: LiteralString = f"""{_NEEDED}
SELECT triggered_modules.module_id FROM triggered_modules
WHERE triggered_modules.module_id IN (SELECT start_id FROM needed) AND NOT EXISTS (
    SELECT 1 FROM needed WHERE needed.start_id = triggered_modules.module_id AND (
        {_HAS_OPEN_CHANGE} OR {_IS_AHEAD_IN_RUN}
        OR needed.id <> needed.start_id AND ({_IS_TRIGGERED} OR {_HAS_FAILED})))
ORDER BY triggered_modules.changed_at, triggered_modules.module_id LIMIT :count"""
"""One statement, so that another server which turns a row into a job is seen either before or after that, never in between."""
_HOLDING: LiteralString = f"""{_NEEDED}
SELECT modules.id, modules.path, modules.organization_id, modules.id = needed.start_id AS is_itself,
    (SELECT min(inputs.source_output) FROM inputs WHERE inputs.place_id = needed.start_id AND inputs.is_current
        AND inputs.source_module_id = needed.id) AS output,
    {_HAS_OPEN_CHANGE} AS has_open_change, {_IS_AHEAD_IN_RUN} AS is_in_run, {_IS_TRIGGERED} AS is_triggered
FROM needed JOIN modules ON modules.id = needed.id
WHERE {_HAS_OPEN_CHANGE} OR {_IS_AHEAD_IN_RUN} OR needed.id <> needed.start_id AND ({_IS_TRIGGERED} OR {_HAS_FAILED})
ORDER BY modules.path LIMIT :count"""
"""What a module waits for, by the conditions of `_READY`."""
_PROBLEM: LiteralString = f"""
SELECT trigger_problems.message, trigger_problems.cause_job_id, trigger_problems.created_at FROM trigger_problems
WHERE trigger_problems.module_id = :module_id AND NOT EXISTS (SELECT 1 FROM jobs
    WHERE jobs.module_id = :module_id AND jobs.type <> 'PLAN' AND jobs.created_at > trigger_problems.created_at
        AND NOT {fragments.is_partial("jobs")})"""


def is_ended(now: LiteralString) -> LiteralString:
    """Return the condition that an input is an output which is not given any more: an owner of the other module has ended the reference,
    or the one who set it may not read the state of that module any more. `now` is an expression with the present time.

    The second part is `lasting_rights.has` as SQL, because the claim decides by it; a test compares them.
    """
    return f"""(inputs.is_current AND inputs.source_module_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM modules AS source WHERE source.id = inputs.source_module_id AND source.path <> source.id
        AND (inputs.ended_by_name IS NOT NULL OR NOT (
            EXISTS (SELECT 1 FROM users WHERE users.id = inputs.set_by AND users.is_system_admin AND NOT users.is_disabled)
            OR EXISTS (SELECT 1 FROM role_bindings AS held WHERE held.principal_id = inputs.set_by
                AND held.organization_id = source.organization_id AND held.role IN {MAY_READ_STATES}
                AND (held.expires_at IS NULL OR held.expires_at > {now})
                AND (held.place_kind = 'module' AND held.path = source.path OR held.place_kind = 'group'
                    AND (held.path = '' OR substr(source.path, 1, length(held.path) + 1) = held.path || '/'))
                AND (EXISTS (SELECT 1 FROM users WHERE users.id = held.principal_id AND NOT users.is_disabled)
                    OR EXISTS (SELECT 1 FROM service_accounts WHERE service_accounts.id = held.principal_id
                        AND service_accounts.organization_id = source.organization_id
                        AND NOT service_accounts.is_disabled)))))))"""


def holds_jobs(now: LiteralString, destroys: LiteralString) -> LiteralString:
    """Return the condition that a job of a module waits because of an input: its output does not exist yet, or is not given any more.

    `destroys` is the condition that the job only destroys. It is given the last value that the output had, and does not wait for a
    module that was destroyed before.
    """
    # The first two conditions are repeated before OR, so that both databases use the index of references.
    return f"""(inputs.is_current AND inputs.source_module_id IS NOT NULL
        AND ({IS_WAITED_FOR} AND NOT ({destroys} AND {_HAD_OUTPUTS}) OR {is_ended(now)}))"""


async def of_modules(tx: Tx, module_ids: Sequence[str]) -> dict[str, list[PlacedInput]]:
    """Return the inputs that are set at each of these modules and at the groups above it, removals included."""
    return _by_module(await tx.each_id(_OF_MODULES, sorted(set(module_ids))))


async def of_modules_with(tx: Tx, job_ids: Sequence[str]) -> dict[str, list[PlacedInput]]:
    """Return the same for the modules of these jobs, no two of which are of the same module."""
    return _by_module(await tx.each_id(_OF_MODULES_WITH_JOBS, job_ids))


def _by_module(rows: Iterable[Row]) -> dict[str, list[PlacedInput]]:
    found: dict[str, list[PlacedInput]] = {}
    for row in rows:
        found.setdefault(row["start_id"], []).append(row_to(PlacedInput, row))
    return found


async def of_group(tx: Tx, group_id: str) -> list[PlacedInput]:
    """Return the inputs that are set at a group and at the groups above it, removals included."""
    return rows_to(PlacedInput, await tx.all(_OF_GROUP, id=group_id))


async def secret_versions(tx: Tx, inputs: Sequence[Input]) -> list[Input]:
    """Return the kept versions of these secrets, the newest included."""
    rows = await tx.each(
        f"""SELECT {INPUTS.columns} FROM batch JOIN inputs ON inputs.place_id = batch.place_id
            AND inputs.target = batch.target AND inputs.name = batch.name
        WHERE inputs.kind = 'secret' AND inputs.sealed IS NOT NULL""",
        {"place_id": "text", "target": "text", "name": "text"},
        [(each.place_id, each.target, each.name) for each in inputs],
    )
    return rows_to(Input, rows)


async def lasting_references(tx: Tx, source_module_id: str) -> list[Input]:
    """Return the inputs that are outputs of this module now, without those that have ended."""
    return await INPUTS.all(
        tx,
        f"""FROM inputs
        WHERE source_module_id = :id AND is_current AND sealed IS NOT NULL AND NOT {is_ended(":now")}""",
        id=source_module_id,
        now=tx.now,
    )


async def needs(tx: Tx, module_id: str, other_id: str) -> bool:
    """Return whether a module is, or needs an output of, another one, directly or through others."""
    row = await tx.one(
        """WITH RECURSIVE needed (id) AS (SELECT CAST(:module_id AS text) UNION
            SELECT inputs.source_module_id FROM needed JOIN inputs ON inputs.place_id = needed.id
                AND inputs.is_current AND inputs.source_module_id IS NOT NULL)
        SELECT id FROM needed WHERE id = :other_id""",
        module_id=module_id,
        other_id=other_id,
    )
    return row is not None


async def ready(tx: Tx, count: int) -> list[str]:
    """Return the modules whose turn it is: everything that they need has been applied, and nothing more is about to change it."""
    return [row["module_id"] for row in await tx.all(_READY, module_id=None, count=count)]


async def is_ready(tx: Tx, module_id: str) -> bool:
    """Return whether it is the turn of this module."""
    return bool(await tx.all(_READY, module_id=module_id, count=1))


async def has_any(tx: Tx) -> bool:
    """Return whether any module waits for its turn."""
    return await tx.one("SELECT module_id FROM triggered_modules LIMIT 1") is not None


async def changed_at(tx: Tx, module_id: str) -> float | None:
    """Return since when a module has to be applied because of a changed output; None if it does not have to."""
    return await tx.value("SELECT changed_at FROM triggered_modules WHERE module_id = :module_id", module_id=module_id)


async def holding(tx: Tx, module_id: str, count: int) -> list[Row]:
    """Return the modules that a module which has to be applied waits for, with the output of each that it uses."""
    return await tx.all(_HOLDING, module_id=module_id, count=count)


async def problem(tx: Tx, module_id: str) -> Row | None:
    """Return why the last changed output could not queue a job of a module, unless a change was queued since."""
    return await tx.one(_PROBLEM, module_id=module_id)
