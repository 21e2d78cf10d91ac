"""Runners as people see them: the record with its instances, its jobs and the status that follows from them."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from terracrew import __version__
from terracrew.api.runners import Instance, Runner, RunnerStatus, RunnerView
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.releases import rules as release_rules
from terracrew.server.releases import store as releases
from terracrew.server.runner_alerts import store as alert_store
from terracrew.server.runners import outdated, store, view_reads
from terracrew.server.runners.model import instance_status


async def views(tx: Tx, runners: Sequence[Runner]) -> list[RunnerView]:
    runner_ids = [runner.id for runner in runners]
    rows = await view_reads.instances(tx, runner_ids)
    instances: dict[str, list[Instance]] = {}
    for row in sorted(rows, key=lambda row: row["name"]):
        instance = row_to(Instance, row)
        instance = msgspec.structs.replace(instance, status=instance_status(instance))
        instances.setdefault(instance.runner_id, []).append(instance)
    facts = {row["id"]: row for row in await view_reads.facts(tx, runner_ids)}
    alerts = await alert_store.urgent_counts(tx, runner_ids)
    newest = release_rules.latest(await releases.versions(tx), __version__)
    return [
        _view(
            runner, instances.get(runner.id, []), facts[runner.id], alerts.get(runner.id, 0), newest and newest.version
        )
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
    version = outdated.current_version(serving, facts["deployed_version"], latest.version if latest else "")
    return RunnerView(
        **msgspec.structs.asdict(runner),
        group=runner.group,
        has_worker_token=bool(facts["has_worker_token"]),
        worker_token_expires_at=_moment(facts["worker_token_expires_at"]),
        is_assigned_to_all_modules=runner.is_shared or bool(facts["is_assigned"]),
        status=RunnerStatus(facts["status"]),
        version=version or None,
        latest_version=latest_version,
        is_outdated=outdated.is_outdated(version, latest_version or ""),
        last_seen_at=latest and latest.heard_at,
        jobs=facts["jobs"],
        capacity=facts["capacity"],
        alerts=alerts,
        instances=instances,
    )


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
