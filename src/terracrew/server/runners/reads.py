"""Reads the runners of a page with their status, limited to those that the reader may see.

The status of a runner follows from its connected instances, and only those are read.
"""

from collections.abc import Collection, Sequence
from typing import LiteralString

import msgspec

from terracrew.api.runners import Runner
from terracrew.server.db.kept import KeptAnswers
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.fragments import UNUSED, child_of
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.runners.store import RUNNERS

MIN_KEPT_RUNNERS = 200
"""The runners of an organization with fewer are counted for each request."""
AWAY_STATUS: LiteralString = """CASE
    WHEN EXISTS (SELECT 1 FROM cloud_instances
        WHERE cloud_instances.runner_id = runners.id AND cloud_instances.status IN ('wanted', 'starting')) THEN 'WAKING'
    WHEN NOT EXISTS (SELECT 1 FROM cloud_deployments
        WHERE cloud_deployments.runner_id = runners.id AND cloud_deployments.status = 'deployed') THEN 'OFFLINE'
    WHEN runners.is_draining THEN 'DRAINING' ELSE 'ASLEEP' END"""
"""The status of a runner without a connected instance."""
STATUS: LiteralString = f"""CASE
    WHEN NOT EXISTS (SELECT 1 FROM instances WHERE instances.runner_id = runners.id AND instances.is_connected)
        THEN {AWAY_STATUS}
    WHEN NOT runners.is_draining AND EXISTS (SELECT 1 FROM instances
        WHERE instances.runner_id = runners.id AND instances.is_connected AND NOT instances.is_draining) THEN 'ONLINE'
    ELSE 'DRAINING' END"""
"""A runner has the best status of its instances, but a runner that was told to drain is DRAINING while an instance is connected."""
_MATCHES: LiteralString = (
    "lower(runners.path || ' ' || runners.description || ' ' || coalesce(runners.region, '') || ' ' || runners.tags)"
)
_NAMED: LiteralString = """EXISTS (SELECT 1 FROM instances
        WHERE instances.runner_id = runners.id AND instances.is_connected AND lower(instances.name) LIKE """
_BELOW: LiteralString = f"""WITH RECURSIVE places (id) AS (
    SELECT CAST(:group_id AS text) UNION SELECT groups.id FROM places JOIN groups ON {child_of("places")})"""
_SEEN: LiteralString = visibility.SEEN_GROUPS + ", places (id) AS (SELECT id FROM seen_groups)"
_COLUMNS: LiteralString = (
    "runners.id, runners.path, runners.description, runners.region, runners.tags, runners.is_draining"
)
_OF_ORGANIZATION: LiteralString = (
    """WITH own AS (
    SELECT """
    + _COLUMNS
    + """ FROM runners WHERE runners.organization_id = :organization_id
    UNION ALL SELECT """
    + _COLUMNS
    + """ FROM runners WHERE runners.organization_id IS NULL AND CAST(:is_shared AS boolean))"""
)
_OF_PLACES: LiteralString = (
    """, own AS (
    SELECT """
    + _COLUMNS
    + """ FROM places JOIN runners ON runners.group_id = places.id
    WHERE substr(runners.path, 1, length(CAST(:below AS text))) = CAST(:below AS text)
    UNION ALL SELECT """
    + _COLUMNS
    + """ FROM runners WHERE runners.organization_id IS NULL AND CAST(:is_shared AS boolean))"""
)
_SOURCES: dict[str, LiteralString] = {
    "organization": _OF_ORGANIZATION,
    "group": _BELOW + _OF_PLACES,
    "reader": _SEEN + _OF_PLACES,
}
_BY_ID: LiteralString = (
    " SELECT runners.id FROM own AS runners WHERE runners.id > :after AND (CAST(:status AS text) IS NULL OR "
    + STATUS
    + " = CAST(:status AS text)) ORDER BY runners.id LIMIT :count"
)
_COUNTS_OF_ORGANIZATION: LiteralString = f"""
SELECT CASE WHEN runners.is_draining OR here.is_taking = 0 THEN 'DRAINING' ELSE 'ONLINE' END AS status, count(*) AS runners
FROM (SELECT instances.runner_id, max(CASE WHEN instances.is_draining THEN 0 ELSE 1 END) AS is_taking
    FROM instances WHERE instances.is_connected GROUP BY instances.runner_id) AS here
JOIN runners ON runners.id = here.runner_id
WHERE runners.organization_id = :organization_id OR runners.organization_id IS NULL AND CAST(:is_shared AS boolean)
GROUP BY 1
UNION ALL SELECT found.status, count(*) FROM (
    SELECT {AWAY_STATUS} AS status FROM cloud_deployments JOIN runners ON runners.id = cloud_deployments.runner_id
    WHERE runners.organization_id = :organization_id AND NOT EXISTS (
        SELECT 1 FROM instances WHERE instances.runner_id = runners.id AND instances.is_connected)) AS found
WHERE found.status <> 'OFFLINE' GROUP BY found.status
UNION ALL SELECT 'ALL', count(*) FROM runners WHERE runners.organization_id = :organization_id
UNION ALL SELECT 'ALL', count(*) FROM runners WHERE runners.organization_id IS NULL AND CAST(:is_shared AS boolean)"""
"""Without a search every runner counts: the connected instances and the cloud-hosted runners are read once, and the other runners
are only counted."""
_FIRST_BY_PATH: LiteralString = """
SELECT found.id FROM (
    SELECT own.id, own.path FROM (SELECT runners.id, runners.path FROM runners
        WHERE runners.organization_id = :organization_id ORDER BY runners.path LIMIT :last) AS own
    UNION ALL SELECT shared.id, shared.path FROM (SELECT runners.id, runners.path FROM runners
        WHERE runners.organization_id IS NULL AND CAST(:is_shared AS boolean) ORDER BY runners.path LIMIT :last) AS shared
) AS found ORDER BY found.path, found.id LIMIT :count OFFSET :skipped"""
"""Without a search and a status the index of paths has the order, and only the runners up to the page are read."""
_FIRST_BY_ID: LiteralString = """
SELECT found.id FROM (
    SELECT own.id FROM (SELECT runners.id FROM runners
        WHERE runners.organization_id = :organization_id AND runners.id > :after ORDER BY runners.id LIMIT :count) AS own
    UNION ALL SELECT shared.id FROM (SELECT runners.id FROM runners
        WHERE runners.organization_id IS NULL AND CAST(:is_shared AS boolean) AND runners.id > :after
        ORDER BY runners.id LIMIT :count) AS shared
) AS found ORDER BY found.id LIMIT :count"""
"""Without a status the index of ids has the order, and only the runners of the page are read."""
_OF_ACCOUNT: LiteralString = (
    f"SELECT {RUNNERS.columns} FROM runners"
    " WHERE organization_id = :organization_id AND service_account_id = :account_id ORDER BY path LIMIT :count"
)
_RECORDS: LiteralString = """
SELECT runners.id, runners.organization_id, runners.path, runners.region, runners.max_jobs,
    runners.is_disabled OR runners.is_draining AS is_closed,
    coalesce(CASE WHEN groups.path = '' THEN service_accounts.name ELSE groups.path || '/' || service_accounts.name END, '')
        AS account_path
FROM batch JOIN runners ON runners.id = batch.id
LEFT JOIN service_accounts ON service_accounts.id = runners.service_account_id
LEFT JOIN groups ON groups.id = service_accounts.group_id
WHERE runners.organization_id IS NOT NULL"""
_FIRST: LiteralString = """
SELECT own.place_id, own.kind, own.path, own.organization_id,
    (SELECT count(*) FROM assignments AS other
        WHERE other.place_id = own.place_id AND other.runner_id <> own.runner_id) AS companions
FROM assignments AS own JOIN runners ON runners.id = own.runner_id
WHERE own.runner_id = :id ORDER BY own.kind, own.path LIMIT :count"""
_NEARER: LiteralString = """
SELECT DISTINCT assignments.path FROM assignments JOIN runners ON runners.id = assignments.runner_id
WHERE assignments.organization_id = :organization_id AND assignments.runner_id <> :id
    AND (CAST(:path AS text) = '' AND assignments.path <> ''
        OR substr(assignments.path, 1, length(CAST(:path AS text)) + 1) = CAST(:path AS text) || '/')
LIMIT :count"""
MAX_NEARER_PLACES = 3
"""How many places with nearer runners are looked for; a reader is told the names of one less."""
_MAX_RANKED_GROUPS = 5
"""For how many of its groups nearer places are looked for: each search may read all assignments of the organization."""


def _word(parameter: LiteralString) -> LiteralString:
    """Return the condition that a word is in the texts that describe a runner, or in the name of a connected instance."""
    return (
        "(" + parameter + " = '%%' OR " + _MATCHES + " LIKE " + parameter + " ESCAPE '\\'"
        " OR " + _NAMED + parameter + " ESCAPE '\\'))"
    )


_SEARCHED: LiteralString = (
    _word("CAST(:word_1 AS text)")
    + " AND "
    + _word("CAST(:word_2 AS text)")
    + " AND "
    + _word("CAST(:word_3 AS text)")
    + " AND "
    + _word("CAST(:word_4 AS text)")
)
_BY_PATH: LiteralString = (
    " SELECT runners.id FROM own AS runners WHERE (CAST(:status AS text) IS NULL OR "
    + STATUS
    + " = CAST(:status AS text)) AND "
    + _SEARCHED
    + " ORDER BY runners.path, runners.id LIMIT :count OFFSET :skipped"
)
_COUNTS: LiteralString = (
    ", found AS MATERIALIZED (SELECT " + STATUS + " AS status FROM own AS runners WHERE " + _SEARCHED + ")"
    " SELECT found.status, count(*) AS runners FROM found GROUP BY found.status"
)
"""The relation is materialized, because SQLite would otherwise compute each status twice: for the group and for the answer."""


class RunnerScope(msgspec.Struct, frozen=True):
    """The part of the tree that a list is about: an organization, or a group and what is below it."""

    organization_id: str
    group_id: str | None = None
    group_path: str = ""
    is_shared: bool = False
    """Whether the runners that serve every organization belong to it."""


async def page(tx: Tx, seen: Visible, within: RunnerScope, status: str | None, after: str, count: int) -> list[str]:
    """Return the ids of the first `count` runners after the id `after`."""
    source, given = _source(seen, within)
    if source == "organization" and status is None:
        return [row["id"] for row in await tx.all(_FIRST_BY_ID, after=after, count=count, **given)]
    rows = await tx.all(_SOURCES[source] + _BY_ID, status=status, after=after, count=count, **given)
    return [row["id"] for row in rows]


async def by_path(
    tx: Tx, seen: Visible, within: RunnerScope, status: str | None, words: dict[str, Param], skipped: int, count: int
) -> list[str]:
    """Return the runners that match a search, in the order of their paths."""
    source, given = _source(seen, within)
    if source == "organization" and status is None and not _is_search(words):
        rows = await tx.all(_FIRST_BY_PATH, last=skipped + count, skipped=skipped, count=count, **given)
        return [row["id"] for row in rows]
    sql = _SOURCES[source] + _BY_PATH
    return [row["id"] for row in await tx.all(sql, status=status, skipped=skipped, count=count, **words, **given)]


async def counts(tx: Tx, seen: Visible, within: RunnerScope, words: dict[str, Param]) -> dict[str, int]:
    """Return how many runners match a search, by status. The numbers of a large organization may be a moment old."""
    source, given = _source(seen, within)
    if source == "organization" and not _is_search(words):
        question = within.organization_id, within.is_shared
        return (await LARGE_COUNTS.get(tx, [question]))[question]
    return {row["status"]: row["runners"] for row in await tx.all(_SOURCES[source] + _COUNTS, **words, **given)}


async def _read_counts(tx: Tx, wanted: Collection[tuple[str, bool]]) -> dict[tuple[str, bool], dict[str, int]]:
    found: dict[tuple[str, bool], dict[str, int]] = {}
    for organization_id, is_shared in wanted:
        rows = await tx.all(_COUNTS_OF_ORGANIZATION, organization_id=organization_id, is_shared=is_shared)
        by_status: dict[str, int] = {}
        for row in rows:
            by_status[row["status"]] = by_status.get(row["status"], 0) + row["runners"]
        total = by_status.pop("ALL")
        found[organization_id, is_shared] = {**by_status, "OFFLINE": total - sum(by_status.values())}
    return found


LARGE_COUNTS: KeptAnswers[tuple[str, bool], dict[str, int]] = KeptAnswers(
    _read_counts, lambda _, counts: sum(counts.values()) >= MIN_KEPT_RUNNERS
)
"""The counts by organization, with or without the shared runners."""


def own(seen: Visible, within: RunnerScope) -> tuple[LiteralString, dict[str, Param]]:
    """Return the start of a statement that has the runners of the scope which the reader sees as `own`, and its parameters."""
    source, given = _source(seen, within)
    return _SOURCES[source], given


def _is_search(words: dict[str, Param]) -> bool:
    return any(word != UNUSED for word in words.values())


def _source(seen: Visible, within: RunnerScope) -> tuple[str, dict[str, Param]]:
    given: dict[str, Param] = {"is_shared": within.is_shared}
    if not seen.is_everything(within.organization_id):
        below = f"{within.group_path}/" if within.group_path else ""
        return "reader", {**given, "below": below, **visibility.params(seen)}
    if (
        within.group_id is None or within.group_path == ""
    ):  # every runner of an organization is in its topmost group or below it
        return "organization", {**given, "organization_id": within.organization_id}
    return "group", {**given, "below": "", "group_id": within.group_id}


async def places(tx: Tx, runner_ids: Sequence[str]) -> list[Row]:
    """Return the id and organization of these runners, and the path of their groups; shared runners have none."""
    return await tx.each_id(
        """SELECT runners.id, runners.organization_id, groups.path FROM batch JOIN runners ON runners.id = batch.id
        JOIN groups ON groups.id = runners.group_id""",
        runner_ids,
    )


async def shared_ids(tx: Tx) -> list[str]:
    """Return the runners that serve every organization."""
    return [row["id"] for row in await tx.all("SELECT id FROM runners WHERE organization_id IS NULL")]


async def is_shared(tx: Tx, runner_id: str) -> bool:
    row = await tx.one("SELECT organization_id FROM runners WHERE id = :id", id=runner_id)
    return row is not None and row["organization_id"] is None


async def paths(tx: Tx, runner_ids: Sequence[str]) -> list[str]:
    """Return the paths of these runners, ordered."""
    rows = await tx.each_id("SELECT runners.path FROM batch JOIN runners ON runners.id = batch.id", runner_ids)
    return sorted(row["path"] for row in rows)


async def of_account(tx: Tx, seen: Visible, organization_id: str, account_id: str, count: int) -> list[Runner]:
    """Return the first `count` runners of a service account, ordered by path, without those that the reader may not see."""
    rows = await tx.all(_OF_ACCOUNT, organization_id=organization_id, account_id=account_id, count=count)
    found = rows_to(Runner, rows)
    return [each for each in found if seen.covers(authorize.group(organization_id, each.group or ""))]


class CloudHostedRecord(msgspec.Struct, frozen=True):
    """The record of a cloud-hosted runner. A shared runner is never one."""

    id: str
    organization_id: str
    path: str
    region: str | None
    max_jobs: int
    is_closed: bool
    """Whether it is disabled or drains, so that nothing is started."""
    account_path: str
    """The service account (`group/name`) that its processes use; empty if there is none."""


async def records(tx: Tx, runner_ids: Collection[str]) -> dict[str, CloudHostedRecord]:
    """Return the records of these runners by their ids."""
    rows = await tx.each_id(_RECORDS, sorted(runner_ids))
    return {each.id: each for each in rows_to(CloudHostedRecord, rows)}


async def first(tx: Tx, runner_id: str, count: int) -> list[Row]:
    """Return the first places of a runner, groups before modules, each with the paths of nearer places of other runners."""
    rows = await tx.all(_FIRST, id=runner_id, count=count)
    groups = [row for row in rows if row["kind"] == "group"][:_MAX_RANKED_GROUPS]
    nearer = {row["place_id"]: await _nearer(tx, runner_id, row) for row in groups}
    return [{**row, "nearer": nearer.get(row["place_id"], [])} for row in rows]


async def _nearer(tx: Tx, runner_id: str, place: Row) -> list[str]:
    rows = await tx.all(
        _NEARER,
        id=runner_id,
        organization_id=place["organization_id"],
        path=place["path"],
        count=MAX_NEARER_PLACES,
    )
    return sorted(row["path"] for row in rows)


async def count(tx: Tx, runner_id: str) -> int:
    """Return how many places a runner is assigned to."""
    return await tx.value(
        "SELECT count(*) AS places FROM assignments JOIN runners ON runners.id = assignments.runner_id"
        " WHERE runners.id = :id",
        id=runner_id,
    )
