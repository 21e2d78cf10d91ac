"""Reads the crew of a place: which runners serve it, and how many of them are online and free.

One statement answers for all places. Only connected instances are counted. Of a runner without one, only the instance that
was connected last is read, because a fleet leaves thousands of old instances behind.
"""

from collections.abc import Collection
from typing import LiteralString

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.runners.model import SILENCE_SECONDS

MAX_LISTED = 100
"""How many runners of one place are read to say which ones are offline."""
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
"""Each place with its runners: a group or module with the runners assigned to it, a runner with itself, and the empty place with
the shared runners."""
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
_FIRST_MEMBERS: LiteralString = (
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


async def assigned_places(tx: Tx, runner_ids: Collection[str]) -> list[Row]:
    """Return the places that each of these runners serves; a shared runner serves the place with the empty name."""
    return await tx.each(
        """SELECT batch.id, assignments.place_id FROM batch JOIN assignments ON assignments.runner_id = batch.id
        UNION ALL SELECT runners.id, '' FROM batch JOIN runners ON runners.id = batch.id AND runners.organization_id IS NULL""",
        {"id": "text"},
        [(runner_id,) for runner_id in sorted(runner_ids)],
    )


async def counts(tx: Tx, wanted: Collection[tuple[str, str, str]]) -> list[Row]:
    """Count the runners of places. Each element of `wanted` is a place, the name of an instance (empty for any) and an engine."""
    return await tx.each(_CREWS, _COLUMNS, _batch(tx, wanted))


async def first_members(tx: Tx, places: Collection[str]) -> list[Row]:
    """Return the first runners of each place by their paths, each with the instance of the latest contact."""
    return await tx.each(_FIRST_MEMBERS, _COLUMNS, _batch(tx, [(place, "", "") for place in places]))


def _batch(tx: Tx, wanted: Collection[tuple[str, str, str]]) -> list[tuple[str, str, str, float, float, int]]:
    return [
        (place, name, engine, tx.now, tx.now - SILENCE_SECONDS, MAX_LISTED) for place, name, engine in sorted(wanted)
    ]
