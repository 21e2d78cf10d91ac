"""The runners that queued jobs could go to: which places have runners, who is online there, and who is not.

All jobs of a page are answered by the same few statements. Only instances that are connected are counted, and of a runner
without one only the instance that was connected last is read: a fleet leaves thousands of old ones behind.
"""

from collections.abc import Collection
from typing import LiteralString, NamedTuple

import msgspec

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.runners import eligibility
from terracrew.server.runners.model import SILENCE_SECONDS

SHARED = ""
"""The place of the runners that serve everybody."""
MAX_LISTED = 100
"""How many runners of one place are looked at to say who is offline."""
KEPT_SECONDS = 1.0
MIN_KEPT_RUNNERS = 200
"""Smaller crews are read each time."""
MAX_KEPT_CREWS = 1_000
_COLUMNS: Columns = {
    "place_id": "text",
    "name": "text",
    "engine": "text",
    "now": "double precision",
    "since": "double precision",
    "most": "bigint",
}
_MEMBERS: LiteralString = """WITH members AS (
    SELECT batch.place_id, batch.name, batch.engine, batch.now, batch.since, batch.most, assignments.runner_id
    FROM batch JOIN assignments ON assignments.place_id = batch.place_id
    UNION ALL SELECT batch.place_id, batch.name, batch.engine, batch.now, batch.since, batch.most, runners.id
    FROM batch JOIN runners ON runners.id = batch.place_id
    UNION ALL SELECT batch.place_id, batch.name, batch.engine, batch.now, batch.since, batch.most, runners.id
    FROM batch JOIN runners ON runners.organization_id IS NULL AND batch.place_id = '')
"""
"""Each place with its runners: a group or a module by its assignments, a runner by itself, and the shared ones."""
_SLOTS: LiteralString = (
    "CASE WHEN instances.capacity < runners.max_jobs THEN instances.capacity ELSE runners.max_jobs END"
)
_IS_NAMED: LiteralString = "(members.name = '' OR instances.name = members.name)"
_CREWS: LiteralString = (
    _MEMBERS
    + """SELECT members.place_id, members.name, count(DISTINCT runners.id) AS runners, count(instances.id) AS online,
    sum(CASE WHEN instances.id IS NOT NULL AND """
    + _IS_NAMED
    + """ THEN 1 ELSE 0 END) AS named,
    members.engine, sum(CASE WHEN instances.engines LIKE '%"' || members.engine || '"%' AND """
    + _IS_NAMED
    + """ THEN 1 ELSE 0 END) AS able,
    CAST(sum(CASE WHEN instances.id IS NULL THEN 0 ELSE """
    + _SLOTS
    + f""" END) AS bigint) AS slots,
    sum(CASE WHEN instances.id IS NOT NULL AND (SELECT count(*) FROM jobs
            WHERE jobs.instance_id = instances.id AND jobs.status IN {ACTIVE_STATUSES}) < """
    + _SLOTS
    + """ THEN 1 ELSE 0 END) AS free,
    min(CASE WHEN instances.id IS NOT NULL THEN runners.id END) AS runner_id
FROM members JOIN runners ON runners.id = members.runner_id
LEFT JOIN instances ON instances.runner_id = runners.id AND instances.is_connected AND instances.heard_at > members.since
    AND NOT instances.is_draining AND NOT runners.is_draining AND NOT runners.is_disabled
GROUP BY members.place_id, members.name, members.engine"""
)
_OFFLINE: LiteralString = (
    _MEMBERS
    + """SELECT ranked.place_id, ranked.id, ranked.path, ranked.organization_id, ranked.is_disabled, ranked.is_drained,
    ranked.organization_id IS NULL OR ranked.worker_token_sha256 IS NOT NULL OR EXISTS (
        SELECT 1 FROM service_account_secrets AS secrets WHERE secrets.service_account_id = ranked.service_account_id
            AND (secrets.expires_at IS NULL OR secrets.expires_at > ranked.now)) AS has_credential,
    instances.is_disk_full, instances.heard_at, instances.is_connected AND instances.heard_at > ranked.since AS is_connected
FROM (
    SELECT members.place_id, members.now, members.since, members.most, runners.id, runners.path, runners.organization_id,
        runners.is_disabled, runners.is_draining AS is_drained, runners.worker_token_sha256, runners.service_account_id,
        row_number() OVER (PARTITION BY members.place_id ORDER BY runners.path) AS rank
    FROM members JOIN runners ON runners.id = members.runner_id) AS ranked
LEFT JOIN instances ON instances.id = coalesce(
    (SELECT here.id FROM instances AS here WHERE here.runner_id = ranked.id AND here.is_connected
        ORDER BY here.heard_at DESC LIMIT 1),
    (SELECT gone.id FROM instances AS gone WHERE gone.runner_id = ranked.id AND NOT gone.is_connected
        ORDER BY gone.disconnected_at DESC LIMIT 1))
WHERE ranked.rank <= ranked.most"""
)
_GROUPS_ABOVE: LiteralString = """WITH RECURSIVE above (start_id, id, parent_id, depth) AS (
    SELECT groups.id, groups.id, groups.parent_id, groups.depth FROM batch JOIN groups ON groups.id = batch.id
    UNION ALL SELECT above.start_id, groups.id, groups.parent_id, groups.depth
    FROM above JOIN groups ON groups.id = above.parent_id)
SELECT start_id, id FROM above ORDER BY depth DESC"""
_MODULES: LiteralString = (
    """SELECT batch.id AS job_id, modules.id, modules.group_id, modules.path, modules.engine, modules.runner_id,
    modules.runner_instance_name AS instance_name, makers.runner_id AS maker_id, makers.path AS maker_path,
    makers.organization_id AS maker_organization_id
FROM batch JOIN jobs ON jobs.id = batch.id JOIN modules ON modules.id = jobs.module_id
LEFT JOIN (SELECT jobs.id AS job_id, maker.id AS runner_id, maker.path, maker.organization_id FROM batch
    JOIN jobs ON jobs.id = batch.id CROSS JOIN """
    + eligibility.MAKER
    + " WHERE "
    + eligibility.OF_JOB
    + """) AS makers ON makers.job_id = jobs.id"""
)


class Crew(msgspec.Struct, frozen=True):
    """The runners that are assigned at one place of the tree, `online` of whose instances take jobs."""

    place_id: str
    runners: int
    online: int
    named: int
    """How many of the online ones have the name that was asked for."""
    able: int
    """How many of those have the engine that was asked for."""
    slots: int
    free: int
    """How many of the online ones have a free slot."""
    runner_id: str | None
    """One that is online."""


class Wanted(NamedTuple):
    """What a job asks for at one place of the tree."""

    place_id: str
    instance_name: str
    """Empty for any instance."""
    engine: str


class LargeCrews:
    """Crews of thousands of runners, kept for a moment: to sum one up takes tens of milliseconds, and every list of jobs asks
    for the one that serves the whole organization. Places are known by their ids, which no two databases share."""

    def __init__(self) -> None:
        self._kept: dict[Wanted, tuple[float, Crew]] = {}

    def get(self, key: Wanted, now: float) -> Crew | None:
        read_at, crew = self._kept.get(key, (0.0, None))
        return crew if 0 <= now - read_at < KEPT_SECONDS else None

    def keep(self, key: Wanted, crew: Crew, now: float) -> None:
        if crew.runners < MIN_KEPT_RUNNERS or crew.place_id == SHARED:
            return
        if len(self._kept) >= MAX_KEPT_CREWS:
            self._kept = {}
        self._kept[key] = now, crew


_LARGE = LargeCrews()


async def modules(tx: Tx, job_ids: Collection[str]) -> dict[str, Row]:
    """Return the module of each job, and the only runner that may continue with its plan, if there is such a plan."""
    rows = await tx.each(_MODULES, {"id": "text"}, [(job_id,) for job_id in sorted(job_ids)])
    return {row["job_id"]: row for row in rows}


async def groups_above(tx: Tx, group_ids: Collection[str]) -> dict[str, list[str]]:
    """Return each group and those above it, nearest first."""
    found: dict[str, list[str]] = {}
    for row in await tx.each(_GROUPS_ABOVE, {"id": "text"}, [(group_id,) for group_id in sorted(group_ids)]):
        found.setdefault(row["start_id"], []).append(row["id"])
    return found


async def assigned_places(tx: Tx, runner_ids: Collection[str]) -> dict[str, set[str]]:
    """Return the places that each of these runners serves."""
    found: dict[str, set[str]] = {}
    rows = await tx.each(
        """SELECT batch.id, assignments.place_id FROM batch JOIN assignments ON assignments.runner_id = batch.id
        UNION ALL SELECT runners.id, '' FROM batch JOIN runners ON runners.id = batch.id AND runners.organization_id IS NULL""",
        {"id": "text"},
        [(runner_id,) for runner_id in sorted(runner_ids)],
    )
    for row in rows:
        found.setdefault(row["id"], set()).add(row["place_id"])
    return found


async def crews(tx: Tx, wanted: Collection[Wanted]) -> dict[Wanted, Crew]:
    """Return the crew of each place that is asked for. Empty places are left out.

    A large crew may be as it was up to a second ago.
    """
    kept = {key: crew for key in wanted if (crew := _LARGE.get(key, tx.now))}
    rows = await tx.each(_CREWS, _COLUMNS, _batch(tx, [key for key in wanted if key not in kept]))
    read = {Wanted(row["place_id"], row["name"], row["engine"]): row_to(Crew, row) for row in rows if row["runners"]}
    for key, crew in read.items():
        _LARGE.keep(key, crew, tx.now)
    return kept | read


async def members(tx: Tx, places: Collection[str]) -> dict[str, list[Row]]:
    """Return the first runners of each place by their paths, each with the instance of the latest contact."""
    found: dict[str, list[Row]] = {}
    for row in await tx.each(_OFFLINE, _COLUMNS, _batch(tx, [Wanted(place, "", "") for place in places])):
        found.setdefault(row["place_id"], []).append(row)
    return found


def _batch(tx: Tx, wanted: Collection[Wanted]) -> list[tuple[str, str, str, float, float, int]]:
    return [
        (place, name, engine, tx.now, tx.now - SILENCE_SECONDS, MAX_LISTED) for place, name, engine in sorted(wanted)
    ]
