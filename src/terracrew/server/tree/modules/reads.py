"""Reads the modules of a page of a list, or those that match a search, limited to those that the reader may see."""

from collections.abc import Iterable, Sequence
from typing import LiteralString, cast

import msgspec

from terracrew.api import fields
from terracrew.api.groups import Group
from terracrew.api.modules import ModuleSettings
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements import fragments
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, child_of, patterns
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Visible

_BELOW: LiteralString = f"""WITH RECURSIVE below (id) AS (
    SELECT CAST(:group_id AS text) UNION SELECT groups.id FROM below JOIN groups ON {child_of("below")})"""
_END: LiteralString = " AND modules.id > :after ORDER BY modules.id LIMIT :count"
_OF_ORGANIZATION: LiteralString = (
    "SELECT modules.* FROM modules WHERE modules.organization_id = :organization_id" + _END
)
_IN_GROUP: LiteralString = "SELECT modules.* FROM modules WHERE modules.group_id = :group_id" + _END
_BELOW_GROUP: LiteralString = (
    _BELOW + " SELECT modules.* FROM below JOIN modules ON modules.group_id = below.id WHERE true" + _END
)
_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT modules.* FROM seen_modules JOIN modules ON modules.id = seen_modules.id
    WHERE (CAST(:group_id AS text) IS NULL OR modules.group_id = CAST(:group_id AS text))
        AND substr(modules.path, 1, length(CAST(:below AS text))) = CAST(:below AS text)
        AND seen_modules.id > :after ORDER BY seen_modules.id LIMIT :count"""
)
"""The order is that of `seen_modules.id`: to order by `modules.id`, PostgreSQL might read every module of the database."""

_TEXTS = cast(
    "tuple[LiteralString, ...]",
    tuple(f"modules.{name}" for name, field in fields.describe(ModuleSettings).items() if field.words.is_searched),
)
"""The columns, beside the path, that the search looks into and that lists show."""
_TEXT: LiteralString = " || ' ' || ".join(("modules.path", *_TEXTS))
_SEARCHED: LiteralString = (
    "groups.path >= :group_path AND (groups.path > :group_path OR modules.name > :name)"
    + "".join(
        f" AND (CAST(:{word} AS text) = '%%' OR lower({_TEXT}) LIKE CAST(:{word} AS text) ESCAPE '\\')"
        for word in ("word_1", "word_2", "word_3", "word_4")
    )
)
_SEARCHED_IN_ORGANIZATION: LiteralString = (
    "SELECT modules.id FROM groups JOIN modules ON modules.group_id = groups.id"
    " WHERE groups.organization_id = :organization_id AND " + _SEARCHED
)
_SEARCHED_BY_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT modules.id FROM seen_modules JOIN modules ON modules.id = seen_modules.id
    JOIN groups ON groups.id = modules.group_id WHERE """
    + _SEARCHED
)
_AT_PATH: LiteralString = " AND substr(modules.path, 1, length(CAST(:below AS text))) = CAST(:below AS text)"
_SEARCHED_BELOW_GROUP: LiteralString = (
    _BELOW
    + """ SELECT modules.id FROM below JOIN groups ON groups.id = below.id JOIN modules ON modules.group_id = below.id WHERE """
    + _SEARCHED
)
_NEWEST_JOB: LiteralString = "FROM jobs AS newest WHERE newest.module_id = modules.id ORDER BY newest.id DESC LIMIT 1"
_IS_IN_DOUBT: LiteralString = """(EXISTS (SELECT 1 FROM attempts JOIN jobs AS gone ON gone.id = attempts.job_id
        WHERE gone.module_id = modules.id AND attempts.is_in_doubt)
        OR EXISTS (SELECT 1 FROM held_modules WHERE held_modules.module_id = modules.id AND held_modules.is_in_doubt))"""
_FILTERED: LiteralString = f""" AND (CAST(:engine AS text) = '' OR modules.engine = CAST(:engine AS text))
    AND (CAST(:runner AS text) = '' OR EXISTS (SELECT 1 FROM runners WHERE runners.path = CAST(:runner AS text)
        AND (runners.id = modules.runner_id OR runners.id = (SELECT newest.runner_id {_NEWEST_JOB}))))
    AND (CAST(:newest AS text) = '' OR CAST(:newest AS text) = coalesce((SELECT CASE
        WHEN CAST(:newest AS text) = 'open' AND newest.finished_at IS NULL THEN 'open' ELSE newest.status END {_NEWEST_JOB}), 'none'))
    AND (NOT CAST(:needs_attention AS boolean) OR {_IS_IN_DOUBT}
        OR EXISTS (SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'quarantined')
        OR EXISTS (SELECT 1 FROM jobs AS holder JOIN attempts ON attempts.job_id = holder.id AND attempts.number = holder.attempt
            WHERE holder.module_id = modules.id AND holder.status IN {ACTIVE_STATUSES} AND attempts.lost_at IS NOT NULL))"""
"""The filters of a list. They are left out of a statement that uses none of them."""
_PATHS_ONLY: tuple[LiteralString, LiteralString] = (_TEXT, "modules.path")
_BY_PATH: LiteralString = " ORDER BY groups.path, modules.name LIMIT :count"
_WITH_NEWEST_JOB: LiteralString = f"""
SELECT modules.id, modules.organization_id, modules.path, modules.name, groups.path AS "group", {", ".join(_TEXTS)},
    modules.engine, modules.state_version, modules.lock_doubt, jobs.id AS job_id, jobs.number AS job_number,
    jobs.type AS job_type, jobs.status AS job_status,
    (SELECT count(*) FROM states WHERE states.module_id = modules.id AND states.status = 'quarantined') AS quarantined,
    {_IS_IN_DOUBT} AS is_in_doubt,
    EXISTS (SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'current'
        AND states.brought_by <> '' AND states.origin <> 'terminal' AND states.version > 1
        AND modules.backend = 'terracrew') AS is_state_replaced,
    (SELECT attempts.lost_at FROM jobs AS holder
        JOIN attempts ON attempts.job_id = holder.id AND attempts.number = holder.attempt
        WHERE holder.module_id = modules.id AND holder.status IN {ACTIVE_STATUSES}) AS orphaned_at,
    coalesce(jobs.finished_at, jobs.started_at, jobs.created_at) AS job_at,
    (SELECT min(name) FROM steps
        WHERE steps.job_id = jobs.id AND steps.attempt = jobs.attempt AND steps.status = 'RUNNING') AS job_step
FROM batch JOIN modules ON modules.id = batch.id JOIN groups ON groups.id = modules.group_id
LEFT JOIN jobs ON jobs.id = (SELECT max(newest.id) FROM jobs AS newest WHERE newest.module_id = modules.id)"""
_DESTROYED_AT: LiteralString = f"""(SELECT max(destroyed.finished_at) FROM jobs AS destroyed
    WHERE destroyed.module_id = modules.id AND destroyed.type = 'DESTROY' AND destroyed.status = 'SUCCEEDED'
        AND NOT {fragments.is_partial("destroyed")})"""
_NOT_ENDED: LiteralString = "9e15"
"""A time after all others."""
_UNUSED: LiteralString = """archives.created_at <= :grace
    AND NOT EXISTS (SELECT 1 FROM published_versions WHERE published_versions.archive_id = archives.id)
    AND NOT EXISTS (SELECT 1 FROM modules WHERE substr(modules.source, 33, 36) = archives.id)
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE substr(jobs.source, 33, 36) = archives.id
        AND (jobs.finished_at IS NULL OR jobs.finished_at > :before))
    AND NOT EXISTS (SELECT 1 FROM jobs WHERE substr(jobs.source, length(jobs.source) - 1) = '}}'
        AND substr(jobs.source, length(jobs.source) - 38, 36) = archives.id
        AND (jobs.finished_at IS NULL OR jobs.finished_at > :before))"""
"""Archives made before `:grace` that are not published, that no module uses, and that no job uses unless it ended before `:before`."""


class ModuleScope(msgspec.Struct, frozen=True):
    """The part of the tree that a list is about: an organization, or a group with or without what is below it."""

    organization_id: str
    group_id: str | None = None
    group_path: str = ""
    is_recursive: bool = False


class ModuleFilter(msgspec.Struct, frozen=True):
    """The filters of a list of modules."""

    status: str = ""
    """The status of the newest job, `open` if it has not ended, or `none` for modules without jobs."""
    engine: str = ""
    runner: str = ""
    """The path of the runner that the module is pinned to, or that had its newest job."""
    needs_attention: bool = False
    """Only modules that are in doubt, have a state in quarantine, or whose lock an attempt holds that was lost."""


NO_FILTER = ModuleFilter()


async def page(tx: Tx, seen: Visible, within: ModuleScope, after: str, count: int) -> list[Row]:
    """Return the first `count` modules after the id `after` that the reader may see."""
    if seen.is_nothing:
        return []
    given: dict[str, Param] = {"after": after, "count": count}
    if not seen.is_everything(within.organization_id):
        below = f"{within.group_path}/" if within.is_recursive and within.group_path else ""
        group_id = None if within.is_recursive else within.group_id
        return await tx.all(_OF_READER, group_id=group_id, below=below, **given, **visibility.params(seen))
    if within.group_id is None:
        return await tx.all(_OF_ORGANIZATION, organization_id=within.organization_id, **given)
    return await tx.all(_BELOW_GROUP if within.is_recursive else _IN_GROUP, group_id=within.group_id, **given)


async def search(
    tx: Tx,
    seen: Visible,
    within: ModuleScope,
    words: str,
    after: str,
    count: int,
    wanted: ModuleFilter = NO_FILTER,
    *,
    only_paths: bool = False,
) -> list[str]:
    """Return the ids of the first `count` modules after the path `after` that match, ordered by group and name.

    The modules below a group are searched, too. A module matches if each word is in its path or in a field that is searched;
    with `only_paths`, in its path.
    """
    if seen.is_nothing:
        return []
    sql, given = _filtered(*_searching(seen, within, words, after, only_paths=only_paths), wanted)
    return [row["id"] for row in await tx.all(sql + _BY_PATH, count=count, **given)]


async def whole(tx: Tx, module_ids: Sequence[str]) -> list[Row]:
    """Return the rows of these modules, in any order."""
    return await tx.each_id("SELECT modules.* FROM batch JOIN modules ON modules.id = batch.id", module_ids)


async def paths(tx: Tx, module_ids: Sequence[str]) -> list[str]:
    """Return the paths of these modules, ordered."""
    sql: LiteralString = "SELECT modules.path FROM batch JOIN modules ON modules.id = batch.id ORDER BY modules.path"
    return [row["path"] for row in await tx.each_id(sql, module_ids)]


async def count(
    tx: Tx, seen: Visible, within: ModuleScope, words: str, most: int, wanted: ModuleFilter = NO_FILTER
) -> int:
    """Return how many modules match, or `most` if there are more."""
    if seen.is_nothing:
        return 0
    sql, given = _filtered(*_searching(seen, within, words, "", only_paths=False), wanted)
    return await tx.value("SELECT count(*) AS modules FROM (" + sql + " LIMIT :most) AS counted", most=most, **given)


def _searching(
    seen: Visible, within: ModuleScope, words: str, after: str, *, only_paths: bool
) -> tuple[LiteralString, dict[str, Param]]:
    group_path, _, name = after.rpartition("/")
    given: dict[str, Param] = {"group_path": group_path, "name": name, **patterns(words)}
    if within.group_path and seen.covers(authorize.group(within.organization_id, within.group_path)):
        sql, given = _SEARCHED_BELOW_GROUP, {**given, "group_id": within.group_id}
    elif seen.is_everything(within.organization_id):
        sql, given = _SEARCHED_IN_ORGANIZATION, {**given, "organization_id": within.organization_id}
    else:
        sql, given = _SEARCHED_BY_READER, {**given, **visibility.params(seen)}
        if within.group_path:
            sql, given = sql + _AT_PATH, {**given, "below": f"{within.group_path}/"}
    return sql.replace(*_PATHS_ONLY) if only_paths else sql, given


def _filtered(
    sql: LiteralString, given: dict[str, Param], wanted: ModuleFilter
) -> tuple[LiteralString, dict[str, Param]]:
    if wanted == NO_FILTER:
        return sql, given
    values: dict[str, Param] = {"engine": wanted.engine, "runner": wanted.runner, "newest": wanted.status}
    return sql + _FILTERED, {**given, **values, "needs_attention": wanted.needs_attention}


async def with_newest_job(tx: Tx, module_ids: Sequence[str]) -> list[Row]:
    """Return what a list shows of these modules: their newest job, and what blocks the next one."""
    return await tx.each_id(_WITH_NEWEST_JOB, module_ids)


async def names(tx: Tx, module_id: str) -> Row | None:
    """Return the path, the organization and the audiences of a module, for the subject of a token."""
    return await tx.one(
        """SELECT modules.path, modules.oidc_audiences, organizations.name AS organization
        FROM modules JOIN organizations ON organizations.id = modules.organization_id WHERE modules.id = :id""",
        id=module_id,
    )


_GROUPS_ABOVE: LiteralString = """WITH RECURSIVE above (module_id, group_id) AS (
    SELECT modules.id, modules.group_id FROM batch JOIN modules ON modules.id = batch.id
    UNION ALL SELECT above.module_id, groups.parent_id FROM above JOIN groups ON groups.id = above.group_id
    WHERE groups.parent_id IS NOT NULL)
"""


async def approval_settings(tx: Tx, module_ids: Sequence[str]) -> list[Row]:
    """Return the path and the approval rules of each of these modules (`id`) and of each group above it, the nearest first.

    A module whose plans all need an approval is a place where one person must approve each change.
    """
    return await tx.each_id(
        _GROUPS_ABOVE
        + """SELECT modules.id, modules.path, modules.max_destroy, modules.max_destroy_percent,
            CAST(NULL AS boolean) AS self_approval, CAST(NULL AS boolean) AS service_account_approval,
            coalesce(modules.min_approvals, CASE WHEN modules.needs_approval THEN 1 END) AS min_approvals,
            modules.interrupted, 1 AS is_module, 0 AS depth
        FROM batch JOIN modules ON modules.id = batch.id
        UNION ALL SELECT above.module_id, groups.path, groups.max_destroy, groups.max_destroy_percent, groups.self_approval,
            groups.service_account_approval, groups.min_approvals, groups.interrupted, 0 AS is_module, groups.depth
        FROM above JOIN groups ON groups.id = above.group_id
        ORDER BY is_module DESC, depth DESC""",
        module_ids,
    )


async def job_settings_of_groups(tx: Tx, module_ids: Sequence[str]) -> list[Row]:
    """Return what each group above these modules sets for jobs, if it sets anything, the nearest group last."""
    return await tx.each_id(
        _GROUPS_ABOVE
        + """SELECT above.module_id AS id, groups.id AS group_id, groups.interrupted, groups.limits, groups.cloud, groups.dispatcher
        FROM above JOIN groups ON groups.id = above.group_id
        WHERE groups.interrupted IS NOT NULL OR groups.limits <> '{}' OR groups.cloud <> '{}' OR groups.dispatcher <> '{}'
        ORDER BY groups.depth""",
        module_ids,
    )


async def taken_paths(tx: Tx, organization_id: str, wanted: Sequence[str]) -> dict[str, str]:
    """Return what has each of these paths, `module` or `group`; those that are free are left out."""
    rows = await tx.each(
        """SELECT batch.path, modules.id AS module_id FROM batch
        LEFT JOIN modules ON modules.organization_id = batch.organization_id AND modules.path = batch.path
        LEFT JOIN groups ON groups.organization_id = batch.organization_id AND groups.path = batch.path
        WHERE modules.id IS NOT NULL OR groups.id IS NOT NULL""",
        {"organization_id": "text", "path": "text"},
        [(organization_id, each) for each in sorted(set(wanted))],
    )
    return {row["path"]: "group" if row["module_id"] is None else "module" for row in rows}


async def pull_request_settings(tx: Tx, module_ids: Sequence[str]) -> list[Row]:
    """Return what each of these modules (`id`) and each group above it says about pull requests, the nearest first."""
    return await tx.each_id(
        _GROUPS_ABOVE
        + """SELECT modules.id, modules.pull_request_plans, modules.pull_request_apply, modules.forge_approvals,
            1 AS is_module, 0 AS depth
        FROM batch JOIN modules ON modules.id = batch.id
        UNION ALL SELECT above.module_id, groups.pull_request_plans, groups.pull_request_apply, groups.forge_approvals,
            0 AS is_module, groups.depth
        FROM above JOIN groups ON groups.id = above.group_id
        ORDER BY is_module DESC, depth DESC""",
        module_ids,
    )


async def remains(tx: Tx, module_id: str) -> Row | None:
    """Count the jobs and states of a module."""
    return await tx.one(
        """SELECT (SELECT count(*) FROM jobs WHERE module_id = :id AND finished_at IS NULL) AS unfinished,
                  (SELECT count(*) FROM jobs WHERE module_id = :id) AS jobs,
                  (SELECT count(*) FROM states WHERE module_id = :id) AS states""",
        id=module_id,
    )


async def path(tx: Tx, module_id: str, organization_id: str) -> str | None:
    """Return the path of a module; None if it was deleted, which moves it to another organization."""
    return await tx.value(
        "SELECT path FROM modules WHERE id = :id AND organization_id = :organization_id",
        id=module_id,
        organization_id=organization_id,
    )


async def below(tx: Tx, group_id: str, count: int) -> list[Row]:
    """Return the modules in a group and below it, and whether there is anything to destroy in each.

    There is nothing if Terracrew keeps its state and has none, or if it was destroyed after every other change ended. A job that
    was queued before the DESTROY may have waited for its approval until after it, and a state may have arrived late. The flags of a
    DESTROY may choose some resources, so there is something as long as the current state has resources.
    """
    return await tx.all(
        _BELOW
        + f""" SELECT modules.id, modules.path, (modules.backend <> 'terracrew' OR modules.state_version > 0) AND COALESCE(
            {_DESTROYED_AT} < (
                SELECT max(COALESCE(jobs.finished_at, {_NOT_ENDED})) FROM jobs WHERE jobs.module_id = modules.id
                    AND jobs.type <> 'PLAN' AND NOT (jobs.type = 'DESTROY' AND jobs.status = 'SUCCEEDED'))
            OR EXISTS (SELECT 1 FROM states WHERE states.module_id = modules.id AND states.status = 'current'
                AND ({_DESTROYED_AT} < states.created_at
                    OR modules.backend = 'terracrew' AND COALESCE(states.resources, 0) > 0)),
            {_DESTROYED_AT} IS NULL) AS has_content
        FROM below JOIN modules ON modules.group_id = below.id ORDER BY modules.path LIMIT :count""",
        group_id=group_id,
        count=count,
    )


async def with_own_backends(tx: Tx, module_ids: Iterable[str]) -> set[str]:
    """Return those of these modules that keep their state in a backend of their own."""
    rows = await tx.each_id(
        "SELECT modules.id FROM batch JOIN modules ON modules.id = batch.id AND modules.backend = 'own'",
        sorted(set(module_ids)),
    )
    return {row["id"] for row in rows}


async def unused(tx: Tx, after: str, grace: float, before: float, limit: int) -> list[Row]:
    """Return the unused archives after the archive `after`, with their sizes."""
    return await tx.all(
        "SELECT id, size AS bytes FROM archives WHERE id > :after AND " + _UNUSED + " ORDER BY id LIMIT :limit",
        after=after,
        grace=grace,
        before=before,
        limit=limit,
    )


async def used_at(tx: Tx, archive_id: str) -> list[str]:
    """Return the paths of the modules that use an archive, or had a job that did."""
    rows = await tx.all(
        """SELECT modules.path FROM modules WHERE substr(modules.source, 33, 36) = :id
        UNION SELECT modules.path FROM jobs JOIN modules ON modules.id = jobs.module_id
        WHERE substr(jobs.source, 33, 36) = :id""",
        id=archive_id,
    )
    return [row["path"] for row in rows]


async def hold_unused(tx: Tx, archive_id: str, grace: float, before: float) -> bool:
    """Lock the row of an archive until the transaction ends, and return whether the archive is unused."""
    await tx.one("SELECT id FROM archives WHERE id = :id FOR UPDATE", id=archive_id)
    row = await tx.one(
        "SELECT id FROM archives WHERE id = :id AND " + _UNUSED,
        id=archive_id,
        grace=grace,
        before=before,
    )
    return row is not None


_LEVEL_PAGE: LiteralString = " AND modules.name > :after ORDER BY modules.name LIMIT :count"
_LEVEL: LiteralString = "SELECT modules.id FROM modules WHERE modules.group_id = :group_id" + _LEVEL_PAGE
_LEVEL_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + " SELECT modules.id FROM seen_modules JOIN modules ON modules.id = seen_modules.id"
    + " WHERE modules.group_id = :group_id"
    + _LEVEL_PAGE
)
_COUNT_BELOW: LiteralString = f"""WITH RECURSIVE below (id) AS (
    SELECT CAST(:group_id AS text) UNION SELECT groups.id FROM below JOIN groups ON {child_of("below")})
SELECT count(*) AS modules FROM (
    SELECT 1 FROM below JOIN modules ON modules.group_id = below.id LIMIT :most) AS counted"""
_COUNT_OF_ORGANIZATION: LiteralString = """SELECT count(*) AS modules FROM (
    SELECT 1 FROM modules WHERE modules.organization_id = :organization_id LIMIT :most) AS counted"""
_COUNT_OF_RUNNER: LiteralString = f"""WITH RECURSIVE places (id) AS (
    SELECT place_id FROM assignments WHERE runner_id = :runner_id
    UNION SELECT groups.id FROM places JOIN groups ON {child_of("places")})
SELECT count(*) AS modules FROM (
    SELECT 1 FROM places JOIN modules ON modules.group_id = places.id LIMIT :most) AS counted"""


async def in_group(tx: Tx, seen: Visible, group: Group, after: str, count: int) -> list[str]:
    """Return the ids of the first `count` modules directly in a group after the name `after` that the reader may see."""
    if seen.is_nothing:
        return []
    if seen.covers(authorize.group(group.organization_id, group.path)):
        rows = await tx.all(_LEVEL, group_id=group.id, after=after, count=count)
    else:
        rows = await tx.all(_LEVEL_OF_READER, group_id=group.id, after=after, count=count, **visibility.params(seen))
    return [row["id"] for row in rows]


async def count_below(tx: Tx, group: Group, most: int) -> int:
    """Return how many modules are in a group and below it, or `most` if there are more."""
    if group.path == "":
        return await tx.value(_COUNT_OF_ORGANIZATION, organization_id=group.organization_id, most=most)
    return await tx.value(_COUNT_BELOW, group_id=group.id, most=most)


async def count_of_runner(tx: Tx, runner_id: str, most: int) -> int:
    """Return how many modules are in and below the groups that a runner is assigned to, or `most` if there are more."""
    return await tx.value(_COUNT_OF_RUNNER, runner_id=runner_id, most=most)


async def watch_patterns(tx: Tx, module_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return which files each of these modules says that count for pull requests."""
    rows = await tx.each_id(
        "SELECT modules.id, modules.watch FROM batch JOIN modules ON modules.id = batch.id", module_ids
    )
    return {row["id"]: msgspec.json.decode(row["watch"], type=list[str]) for row in rows}


async def state_versions(tx: Tx, module_ids: Iterable[str]) -> dict[str, int]:
    """Return the version of the current state of each of these modules."""
    rows = await tx.each_id(
        "SELECT modules.id, modules.state_version FROM batch JOIN modules ON modules.id = batch.id", sorted(module_ids)
    )
    return {row["id"]: row["state_version"] for row in rows}


async def paths_in(tx: Tx, organization_id: str, module_ids: Iterable[str]) -> dict[str, str]:
    """Return the paths of modules. Those that were deleted are left out."""
    rows = await tx.each(
        "SELECT modules.id, modules.path FROM batch JOIN modules ON modules.id = batch.id"
        " AND modules.organization_id = batch.organization_id",
        {"id": "text", "organization_id": "text"},
        [(each, organization_id) for each in sorted(module_ids)],
    )
    return {row["id"]: row["path"] for row in rows}
