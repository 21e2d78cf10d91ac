"""Reads the instances, the jobs and the status of runners, for the people who look at them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import LiteralString

import msgspec

from terracrew import __version__
from terracrew.api.runners import Instance, Runner, RunnerStatus, RunnerView
from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.releases import rules as release_rules
from terracrew.server.releases import store as releases
from terracrew.server.runners import reads, store
from terracrew.server.runners.alerts import store as alert_store
from terracrew.server.runners.model import instance_status
from terracrew.source_rules.version_ranges import parse_version

MAX_CONNECTED = 100
"""How many connected instances of a runner are shown; all of them count for its capacity and its status."""
_LAST_DISCONNECTED: LiteralString = "10"
"""How many of the instances that disconnected last are shown."""
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
    f"""SELECT runners.id, runners.worker_token_sha256 IS NOT NULL AS has_worker_token, runners.worker_token_expires_at,
    EXISTS (SELECT 1 FROM assignments WHERE runner_id = runners.id AND place_id = runners.group_id) AS is_assigned,
    coalesce((SELECT version FROM cloud_deployments WHERE cloud_deployments.runner_id = runners.id), '') AS deployed_version,
    (SELECT count(*) FROM jobs WHERE jobs.runner_id = runners.id AND jobs.status IN {ACTIVE_STATUSES}) AS jobs,
    (SELECT CAST(coalesce(sum(CASE WHEN instances.capacity < runners.max_jobs THEN instances.capacity ELSE runners.max_jobs END), 0)
        AS bigint) FROM instances WHERE instances.runner_id = runners.id AND instances.is_connected) AS capacity, """
    + reads.STATUS
    + " AS status FROM batch JOIN runners ON runners.id = batch.id"
)


async def instances(tx: Tx, runner_ids: Sequence[str]) -> list[Row]:
    """Return the connected instances of these runners, and the last ones that have disconnected."""
    rows = await tx.each(_CONNECTED, _COLUMNS, [(runner_id, MAX_CONNECTED) for runner_id in runner_ids])
    return [*rows, *await tx.each_id(_DISCONNECTED, runner_ids)]


async def facts(tx: Tx, runner_ids: Sequence[str]) -> list[Row]:
    """Return the status, the jobs and the capacity of these runners, and whether they have a token and an assignment."""
    return await tx.each_id(_FACTS, runner_ids)


async def counts_by_status(tx: Tx) -> list[Row]:
    """Count all runners by their status. Disabled runners are counted separately."""
    return await tx.all(
        f"""SELECT found.is_disabled, found.status, count(*) AS runners
        FROM (SELECT runners.is_disabled, {reads.STATUS} AS status FROM runners) AS found
        GROUP BY found.is_disabled, found.status"""
    )


async def views(tx: Tx, runners: Sequence[Runner]) -> list[RunnerView]:
    runner_ids = [runner.id for runner in runners]
    found: dict[str, list[Instance]] = {}
    for row in sorted(await instances(tx, runner_ids), key=lambda row: row["name"]):
        instance = row_to(Instance, row)
        instance = msgspec.structs.replace(instance, status=instance_status(instance))
        found.setdefault(instance.runner_id, []).append(instance)
    known = {row["id"]: row for row in await facts(tx, runner_ids)}
    alerts = await alert_store.urgent_counts(tx, runner_ids)
    newest = release_rules.latest(await releases.versions(tx), __version__)
    return [
        _view(runner, found.get(runner.id, []), known[runner.id], alerts.get(runner.id, 0), newest and newest.version)
        for runner in runners
    ]


async def views_of(tx: Tx, runner_ids: Sequence[str]) -> list[RunnerView]:
    """Return these runners as people see them, in the order of the ids."""
    return await views(tx, await store.get_many(tx, runner_ids))


async def view(tx: Tx, runner: Runner) -> RunnerView:
    return (await views(tx, [runner]))[0]


def _view(runner: Runner, instances: list[Instance], facts: Row, alerts: int, latest_version: str | None) -> RunnerView:
    latest = max(instances, key=lambda instance: instance.heard_at, default=None)
    here = [each for each in instances if each.is_connected]
    serving = [each.version for each in here if not each.retire_reason and not each.is_on_trial]
    expires_at = facts["worker_token_expires_at"]
    version = current_version(serving, facts["deployed_version"], latest.version if latest else "")
    return RunnerView(
        **msgspec.structs.asdict(runner),
        group=runner.group,
        has_worker_token=bool(facts["has_worker_token"]),
        worker_token_expires_at=expires_at and datetime.fromtimestamp(expires_at, UTC),
        is_assigned_to_all_modules=runner.is_shared or bool(facts["is_assigned"]),
        status=RunnerStatus(facts["status"]),
        version=version or None,
        latest_version=latest_version,
        is_outdated=release_rules.is_outdated(version, latest_version or ""),
        last_seen_at=latest and latest.heard_at,
        jobs=facts["jobs"],
        capacity=facts["capacity"],
        alerts=alerts,
        instances=instances,
    )


def current_version(connected: Iterable[str], deployed: str, last: str) -> str:
    """Return the version of a runner: the lowest one of its connected instances that take jobs.

    Without such an instance, it is the version that was deployed for it (a cloud-hosted runner that sleeps), or that of the instance
    with the latest contact. Empty if nothing is known.
    """
    return min(connected, key=_order, default="") or deployed or last


def _order(version: str) -> tuple[bool, object]:
    parsed = parse_version(version)
    return parsed is None, parsed.order if parsed else version
