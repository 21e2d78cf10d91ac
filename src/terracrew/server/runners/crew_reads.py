"""Reads the crew of a place: which runners serve it, and how many of them are online and free.

One statement answers for all places. Only connected instances are counted. Of a runner without one, only the instance that
was connected last is read, because a fleet leaves thousands of old instances behind.
"""

from collections.abc import Collection, Sequence
from typing import LiteralString

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.runners import eligibility
from terracrew.server.runners.eligibility import GRACE_SECONDS
from terracrew.server.runners.model import SILENCE_SECONDS

MAX_LISTED = 100
"""How many runners of one place are read to say which ones are offline."""
_COLUMNS: Columns = {
    "number": "bigint",
    "place_id": "text",
    "name": "text",
    "engine": "text",
    "engine_version": "text",
    "tags": "text",
    "choice": "text",
    "now": "double precision",
    "since": "double precision",
    "grace_since": "double precision",
    "most": "bigint",
}
_MEMBERS: LiteralString = """WITH members AS (
    SELECT batch.*, assignments.runner_id FROM batch JOIN assignments ON assignments.place_id = batch.place_id
    UNION ALL SELECT batch.*, runners.id FROM batch JOIN runners ON runners.id = batch.place_id
    UNION ALL SELECT batch.*, runners.id FROM batch JOIN runners ON runners.organization_id IS NULL AND batch.place_id = '')
"""
"""Each place with its runners: a group or module with the runners assigned to it, a runner with itself, and the empty place with
the shared runners."""
_STAGE: LiteralString = f"""CASE WHEN NOT (members.name = '' OR instances.name = members.name) THEN 0
    WHEN NOT {eligibility.has_tags("members.tags")} THEN 1
    WHEN NOT (members.choice <> '{{}}' OR {eligibility.has_engine("members.engine", "members.engine_version")}) THEN 2
    WHEN NOT ({eligibility.HAS_FREE_SLOT}) THEN 3 ELSE 4 END"""
"""How many conditions of a job an instance meets, in their order: the name, the tags, the engine, a free slot.

Whether it offers what a job asks of a dispatcher is not among them, because SQL cannot match patterns: see `announcements`."""


_WAKE_STAGE: LiteralString = f"""CASE WHEN NOT {eligibility.has_tags("members.tags")} THEN 1
    WHEN NOT (members.choice <> '{{}}' OR {eligibility.next_has_engine("members.engine", "members.engine_version")}) THEN 2
    ELSE 3 END"""
"""How many conditions of a job a runner meets that can be woken. A job that is pinned to the name of an instance wakes nobody."""
_WAKEABLE: LiteralString = """members JOIN runners ON runners.id = members.runner_id AND runners.can_wake
    AND NOT runners.is_draining AND NOT runners.is_disabled AND members.name = ''"""


def _seats(is_online: LiteralString) -> LiteralString:
    return f"""SELECT members.number, runners.id AS runner_id, instances.id AS instance_id, instances.is_connected AS is_online,
        instances.heard_at > members.since AS is_in_contact, {eligibility.SLOTS} AS slots, {_STAGE} AS stage, 0 AS wake_stage
    FROM members JOIN runners ON runners.id = members.runner_id AND NOT runners.is_draining AND NOT runners.is_disabled
    JOIN instances ON instances.runner_id = runners.id AND NOT instances.is_draining AND {is_online}"""


_CREWS: LiteralString = (
    _MEMBERS
    + f"""SELECT number, count(DISTINCT runner_id) AS runners, count(instance_id) AS expected,
    sum(CASE WHEN stage > 0 THEN 1 ELSE 0 END) AS expected_named,
    sum(CASE WHEN is_online THEN 1 ELSE 0 END) AS online,
    sum(CASE WHEN is_online AND is_in_contact THEN 1 ELSE 0 END) AS in_contact,
    sum(CASE WHEN is_online AND stage > 0 THEN 1 ELSE 0 END) AS named,
    sum(CASE WHEN is_online AND stage > 1 THEN 1 ELSE 0 END) AS tagged,
    sum(CASE WHEN is_online AND stage > 1 THEN 1 ELSE 0 END) AS offering,
    sum(CASE WHEN is_online AND stage > 2 THEN 1 ELSE 0 END) AS able,
    sum(CASE WHEN is_online AND stage > 3 THEN 1 ELSE 0 END) AS free,
    CAST(sum(CASE WHEN is_online AND stage > 2 THEN slots ELSE 0 END) AS bigint) AS slots,
    min(CASE WHEN is_online AND stage > 2 THEN instance_id END) AS instance_id,
    sum(CASE WHEN wake_stage > 0 THEN 1 ELSE 0 END) AS wakeable,
    sum(CASE WHEN wake_stage > 1 THEN 1 ELSE 0 END) AS wakeable_tagged,
    sum(CASE WHEN wake_stage > 1 THEN 1 ELSE 0 END) AS wakeable_offering,
    sum(CASE WHEN wake_stage > 2 THEN 1 ELSE 0 END) AS wakeable_able
FROM (
    SELECT number, runner_id, NULL AS instance_id, false AS is_online, false AS is_in_contact, 0 AS slots, 0 AS stage,
        0 AS wake_stage FROM members
    UNION ALL SELECT members.number, runners.id, NULL, false, false, 0, 0, {_WAKE_STAGE} FROM {_WAKEABLE}
    UNION ALL {_seats("instances.is_connected")}
    UNION ALL {_seats("NOT instances.is_connected AND instances.disconnected_at > members.grace_since")}) AS seats
GROUP BY number"""
)
_ANNOUNCEMENTS: LiteralString = (
    _MEMBERS
    + f"""SELECT number, dispatchers, engines, engine_versions, installable_engines, count(*) AS instances,
    sum(CASE WHEN stage > 3 THEN 1 ELSE 0 END) AS free, CAST(sum(slots) AS bigint) AS slots, min(id) AS instance_id
FROM (
    SELECT members.number, instances.id, instances.dispatchers, instances.engines, instances.engine_versions,
        instances.installable_engines, {eligibility.SLOTS} AS slots, {_STAGE} AS stage
    FROM members JOIN runners ON runners.id = members.runner_id AND NOT runners.is_draining AND NOT runners.is_disabled
    JOIN instances ON instances.runner_id = runners.id AND NOT instances.is_draining AND instances.is_connected) AS seats
WHERE stage > 1 GROUP BY number, dispatchers, engines, engine_versions, installable_engines ORDER BY number, instance_id"""
)
_WAKEABLE_ANNOUNCEMENTS: LiteralString = (
    _MEMBERS
    + f"""SELECT members.number, instances.id AS instance_id, instances.dispatchers, instances.engines, instances.engine_versions,
    instances.installable_engines
FROM {_WAKEABLE} LEFT JOIN instances ON {eligibility.IS_NEWEST}
WHERE {eligibility.has_tags("members.tags")}"""
)
_FIRST_MEMBERS: LiteralString = (
    _MEMBERS
    + """SELECT ranked.place_id, ranked.id, ranked.path, ranked.organization_id, ranked.is_disabled, ranked.is_drained,
    ranked.organization_id IS NULL OR ranked.worker_token_sha256 IS NOT NULL OR EXISTS (
        SELECT 1 FROM service_account_secrets AS secrets WHERE secrets.service_account_id = ranked.service_account_id
            AND (secrets.expires_at IS NULL OR secrets.expires_at > ranked.now)) OR EXISTS (
        SELECT 1 FROM trust_policies AS policies WHERE policies.service_account_id = ranked.service_account_id
            AND (policies.expires_at IS NULL OR policies.expires_at > ranked.now)) AS has_credential,
    ranked.is_cloud_hosted, ranked.can_wake, ranked.tags, instances.is_disk_full, instances.drain_reason, instances.heard_at,
    instances.is_connected AND instances.heard_at > ranked.since AS is_connected
FROM (
    SELECT members.place_id, members.now, members.since, members.most, runners.id, runners.path, runners.organization_id,
        runners.is_disabled, runners.is_draining AS is_drained, runners.type = 'cloud-hosted' AS is_cloud_hosted,
        runners.can_wake AND NOT runners.is_disabled AND NOT runners.is_draining AS can_wake, runners.tags,
        runners.worker_token_sha256, runners.service_account_id,
        row_number() OVER (PARTITION BY members.place_id ORDER BY runners.path) AS rank
    FROM members JOIN runners ON runners.id = members.runner_id) AS ranked
LEFT JOIN instances ON instances.id = coalesce(
    (SELECT here.id FROM instances AS here WHERE here.runner_id = ranked.id AND here.is_connected
        ORDER BY here.heard_at DESC LIMIT 1),
    (SELECT gone.id FROM instances AS gone WHERE gone.runner_id = ranked.id AND NOT gone.is_connected
        ORDER BY gone.disconnected_at DESC LIMIT 1))
WHERE ranked.rank <= ranked.most"""
)


async def assigned_places(tx: Tx, runner_ids: Collection[str]) -> list[Row]:
    """Return the places that each of these runners serves; a shared runner serves the place with the empty name."""
    return await tx.each_id(
        """SELECT batch.id, assignments.place_id FROM batch JOIN assignments ON assignments.runner_id = batch.id
        UNION ALL SELECT runners.id, '' FROM batch JOIN runners ON runners.id = batch.id AND runners.organization_id IS NULL""",
        sorted(runner_ids),
    )


async def groups_of_assigned(tx: Tx, place_id: str) -> list[Row]:
    """Return the runners that are assigned to a place itself, each with the path of its own group."""
    return await tx.all(
        """SELECT runners.path, groups.path AS group_path FROM assignments JOIN runners ON runners.id = assignments.runner_id
        JOIN groups ON groups.id = runners.group_id WHERE assignments.place_id = :place_id ORDER BY runners.path""",
        place_id=place_id,
    )


async def counts(tx: Tx, wanted: Sequence[tuple[str, str, str, str, str, str]]) -> list[Row]:
    """Count the runners of places. The `number` of a row is the index in `wanted`.

    Each element of `wanted` is a place, the name of an instance (empty for any), an engine, the range of its
    versions (empty for any), tags as JSON, and what is asked of a dispatcher as JSON.
    """
    return await tx.each(_CREWS, _COLUMNS, _batch(tx, wanted))


async def announcements(tx: Tx, wanted: Sequence[tuple[str, str, str, str, str, str]]) -> list[Row]:
    """Return what the online instances with the wanted name and tags announced, and how many announced the same.

    Many instances of a fleet announce the same, so there are few rows.
    """
    return await tx.each(_ANNOUNCEMENTS, _COLUMNS, _batch(tx, wanted))


async def wakeable_announcements(tx: Tx, wanted: Sequence[tuple[str, str, str, str, str, str]]) -> list[Row]:
    """Return what the newest instance of each runner announced that can be woken and has the wanted tags; NULL if there was none."""
    return await tx.each(_WAKEABLE_ANNOUNCEMENTS, _COLUMNS, _batch(tx, wanted))


async def first_members(tx: Tx, places: Collection[str]) -> list[Row]:
    """Return the first runners of each place by their paths, each with the instance of the latest contact."""
    return await tx.each(
        _FIRST_MEMBERS, _COLUMNS, _batch(tx, [(place, "", "", "", "[]", "{}") for place in sorted(places)])
    )


async def knowing_merges(tx: Tx, places: Collection[str]) -> set[str]:
    """Return those of these places that have a connected instance which knows merge results."""
    rows = await tx.each(
        _MEMBERS
        + """SELECT DISTINCT members.place_id FROM members
        JOIN instances ON instances.runner_id = members.runner_id AND instances.is_connected AND instances.knows_merge_results""",
        _COLUMNS,
        _batch(tx, [(place, "", "", "", "[]", "{}") for place in sorted(places)]),
    )
    return {row["place_id"] for row in rows}


def _batch(
    tx: Tx, wanted: Sequence[tuple[str, str, str, str, str, str]]
) -> list[tuple[int, str, str, str, str, str, str, float, float, float, int]]:
    times = tx.now, tx.now - SILENCE_SECONDS, tx.now - GRACE_SECONDS
    return [(number, *each, *times, MAX_LISTED) for number, each in enumerate(wanted)]
