"""Reads the instances of runners with their free slots and what they announced."""

from collections.abc import Collection
from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.engines import model as engines
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.runners import eligibility
from terracrew.server.runners.eligibility import GRACE_SECONDS

_engines = msgspec.json.Decoder(dict[str, str])
_versions = msgspec.json.Decoder(dict[str, list[str]])
_names = msgspec.json.Decoder(list[str])
_ANNOUNCED: LiteralString = (
    "instances.dispatchers, instances.engines, instances.engine_versions, instances.installable_engines"
)
_COLUMNS: Columns = {"id": "text", "grace_since": "double precision"}
_SEATS: LiteralString = f"""
SELECT instances.runner_id, instances.name, runners.tags, {_ANNOUNCED},
    {eligibility.SLOTS} - (SELECT count(*) FROM jobs AS held WHERE held.instance_id = instances.id
        AND held.status IN {ACTIVE_STATUSES}) AS free
FROM batch JOIN runners ON runners.id = batch.id AND NOT runners.is_draining AND NOT runners.is_disabled
JOIN instances ON instances.runner_id = runners.id AND NOT instances.is_draining
    AND (instances.is_connected OR instances.disconnected_at > batch.grace_since)
ORDER BY instances.runner_id, instances.id"""
_NEWEST: LiteralString = f"""
SELECT runners.id AS runner_id, runners.tags, instances.id AS instance_id, {_ANNOUNCED}
FROM batch JOIN runners ON runners.id = batch.id LEFT JOIN instances ON {eligibility.IS_NEWEST}"""


class FreeSeat(msgspec.Struct, frozen=True):
    """An instance that takes jobs, or did so a moment ago."""

    runner_id: str
    name: str
    tags: frozenset[str]
    engines: AvailableEngines
    free: int


class Announced(msgspec.Struct, frozen=True):
    """What the next instance of a runner will have."""

    tags: frozenset[str]
    engines: AvailableEngines | None
    """None: the runner never had an instance, so nothing is known."""


async def seats(tx: Tx, runner_ids: Collection[str]) -> list[FreeSeat]:
    """Return the instances of these runners that take jobs, also those that disconnected a moment ago, as precedence counts them."""
    rows = await tx.each(_SEATS, _COLUMNS, [(each, tx.now - GRACE_SECONDS) for each in sorted(runner_ids)])
    return [FreeSeat(row["runner_id"], row["name"], _tags(row), available(row), max(0, row["free"])) for row in rows]


async def newest(tx: Tx, runner_ids: Collection[str]) -> dict[str, Announced]:
    """Return what the newest instance of each of these runners announced."""
    rows = await tx.each_id(_NEWEST, sorted(runner_ids))
    return {
        row["runner_id"]: Announced(_tags(row), None if row["instance_id"] is None else available(row)) for row in rows
    }


def available(row: Row) -> AvailableEngines:
    """Return what an instance announced."""
    versions, installable = _versions.decode(row["engine_versions"]), _names.decode(row["installable_engines"])
    return engines.available(_engines.decode(row["engines"]), versions, installable, row["dispatchers"])


def _tags(row: Row) -> frozenset[str]:
    return frozenset(_names.decode(row["tags"]))


async def online_slots(tx: Tx, organization_id: str) -> int:
    """Return how many slots the online runners have that an organization may use, its own and the shared ones."""
    found = await tx.value(
        f"""SELECT sum({eligibility.SLOTS}) AS slots FROM instances JOIN runners ON runners.id = instances.runner_id
        WHERE instances.is_connected AND NOT instances.is_draining AND NOT runners.is_draining AND NOT runners.is_disabled
            AND (runners.organization_id IS NULL OR runners.organization_id = :id)""",
        id=organization_id,
    )
    return int(found or 0)
