"""Runners as people see them: the record with its instances, its jobs and the status that follows from them."""

from collections.abc import Sequence
from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.runners import reads, store
from terracrew.server.runners.model import Instance, Runner, RunnerStatus, RunnerView, instance_status

MAX_CONNECTED = 100
"""How many connected instances of a runner are shown; all of them count for its capacity and its status."""
_LAST_DISCONNECTED: LiteralString = "10"
"""How many instances that are gone are shown: the last ones."""
_COLUMNS: Columns = {"id": "text", "most": "bigint"}
_ROW: LiteralString = f"""SELECT instances.*, (
    SELECT count(*) FROM jobs WHERE jobs.instance_id = instances.id AND jobs.status IN {ACTIVE_STATUSES}) AS jobs """
_CONNECTED: LiteralString = (
    _ROW
    + """FROM (
    SELECT here.id, batch.most, row_number() OVER (PARTITION BY here.runner_id ORDER BY here.name) AS place
    FROM batch JOIN instances AS here ON here.runner_id = batch.id AND here.is_connected) AS ranked
JOIN instances ON instances.id = ranked.id WHERE ranked.place <= ranked.most"""
)
_DISCONNECTED: LiteralString = (
    _ROW
    + """FROM batch JOIN instances ON instances.runner_id = batch.id AND NOT instances.is_connected
    AND instances.disconnected_at > coalesce((
        SELECT gone.disconnected_at FROM instances AS gone WHERE gone.runner_id = batch.id AND NOT gone.is_connected
        ORDER BY gone.disconnected_at DESC LIMIT 1 OFFSET """
    + _LAST_DISCONNECTED
    + """), 0)"""
)
_FACTS: LiteralString = (
    f"""SELECT runners.id, runners.worker_token_sha256 IS NOT NULL AS has_worker_token,
    EXISTS (SELECT 1 FROM assignments WHERE runner_id = runners.id AND place_id = runners.group_id) AS is_assigned,
    (SELECT count(*) FROM jobs WHERE jobs.runner_id = runners.id AND jobs.status IN {ACTIVE_STATUSES}) AS jobs,
    (SELECT CAST(coalesce(sum(CASE WHEN instances.capacity < runners.max_jobs THEN instances.capacity ELSE runners.max_jobs END), 0)
        AS bigint) FROM instances WHERE instances.runner_id = runners.id AND instances.is_connected) AS capacity, """
    + reads.STATUS
    + " AS status FROM batch JOIN runners ON runners.id = batch.id"
)


async def views(tx: Tx, runners: Sequence[Runner]) -> list[RunnerView]:
    keys = [(runner.id,) for runner in runners]
    rows = await tx.each(_CONNECTED, _COLUMNS, [(*key, MAX_CONNECTED) for key in keys])
    rows += await tx.each(_DISCONNECTED, {"id": "text"}, keys)
    instances: dict[str, list[Instance]] = {}
    for row in sorted(rows, key=lambda row: row["name"]):
        instance = row_to(Instance, row)
        instance = msgspec.structs.replace(instance, status=instance_status(instance))
        instances.setdefault(instance.runner_id, []).append(instance)
    facts = {row["id"]: row for row in await tx.each(_FACTS, {"id": "text"}, keys)}
    return [_view(runner, instances.get(runner.id, []), facts[runner.id]) for runner in runners]


async def views_of(tx: Tx, runner_ids: Sequence[str]) -> list[RunnerView]:
    """In the order of the ids."""
    return await views(tx, await store.get_many(tx, runner_ids))


async def view(tx: Tx, runner: Runner) -> RunnerView:
    return (await views(tx, [runner]))[0]


def _view(runner: Runner, instances: list[Instance], facts: Row) -> RunnerView:
    latest = max(instances, key=lambda instance: instance.heard_at, default=None)
    return RunnerView(
        **msgspec.structs.asdict(runner),
        group=runner.group,
        has_worker_token=bool(facts["has_worker_token"]),
        is_assigned_to_all_modules=runner.is_shared or bool(facts["is_assigned"]),
        status=RunnerStatus(facts["status"]),
        version=latest and latest.version,
        last_seen_at=latest and latest.heard_at,
        jobs=facts["jobs"],
        capacity=facts["capacity"],
        instances=instances,
    )
