"""Reads what the updates of runners need to know about their instances."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from terracrew.protocol.messages import Installation
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.statements.table import Table


class UpdatableInstance(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of an instance that decide whether and how it is updated."""

    id: str
    runner_id: str
    name: str
    version: str
    is_connected: bool
    is_self_updating: bool
    installation: Installation
    connected_at: datetime
    disconnected_at: datetime | None = None


INSTANCES = Table("instances", UpdatableInstance)


async def of_runner(tx: Tx, runner_id: str, gone_since: float) -> list[UpdatableInstance]:
    """Return the connected instances of a runner, and those that disconnected after this time, in the order of their names."""
    rows = await tx.all(
        "SELECT "
        + INSTANCES.columns
        + """ FROM instances WHERE runner_id = :runner_id AND (is_connected OR disconnected_at > :gone_since) ORDER BY name""",
        runner_id=runner_id,
        gone_since=gone_since,
    )
    return rows_to(UpdatableInstance, rows)


async def newest(tx: Tx, runner_ids: Sequence[str]) -> dict[str, list[UpdatableInstance]]:
    """Return the connected instances of each of these runners, or else the one that disconnected last, in the order of their names."""
    rows = await tx.each(
        "SELECT "
        + INSTANCES.columns
        + """ FROM batch JOIN instances ON instances.runner_id = batch.wanted AND (instances.is_connected OR instances.id = (
            SELECT gone.id FROM instances AS gone WHERE gone.runner_id = batch.wanted AND NOT gone.is_connected
            ORDER BY gone.disconnected_at DESC LIMIT 1))
        ORDER BY instances.name""",
        {"wanted": "text"},
        [(each,) for each in runner_ids],
    )
    found: dict[str, list[UpdatableInstance]] = {each: [] for each in runner_ids}
    for instance in rows_to(UpdatableInstance, rows):
        found[instance.runner_id].append(instance)
    return {key: [each for each in some if each.is_connected] or some for key, some in found.items()}


async def instance(tx: Tx, instance_id: str) -> UpdatableInstance | None:
    rows = await tx.all("SELECT " + INSTANCES.columns + " FROM instances WHERE id = :id", id=instance_id)
    return next(iter(rows_to(UpdatableInstance, rows)), None)
