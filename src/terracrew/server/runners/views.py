"""Runners as people see them: the record with its instances, its jobs and the status that follows from them."""

from collections.abc import Sequence

import msgspec

from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Row, Tx
from terracrew.server.runners.model import Instance, Runner, RunnerView, instance_status, status

_INSTANCES = """
SELECT instances.*, (
    SELECT count(*) FROM jobs WHERE jobs.instance_id = instances.id AND jobs.status IN ('CLAIMED', 'PROCESSING')
) AS jobs
FROM batch JOIN instances ON instances.runner_id = batch.id
ORDER BY instances.name"""

_FACTS = """
SELECT runners.id, runners.worker_token_sha256 IS NOT NULL AS has_worker_token,
    EXISTS (SELECT 1 FROM assignments WHERE runner_id = runners.id AND place_id = runners.group_id) AS is_assigned,
    (SELECT count(*) FROM jobs WHERE jobs.runner_id = runners.id AND jobs.status IN ('CLAIMED', 'PROCESSING')) AS jobs
FROM batch JOIN runners ON runners.id = batch.id"""


async def views(tx: Tx, runners: Sequence[Runner]) -> list[RunnerView]:
    keys = [(runner.id,) for runner in runners]
    instances: dict[str, list[Instance]] = {}
    for row in await tx.each(_INSTANCES, {"id": "text"}, keys):
        instance = row_to(Instance, row)
        instance = msgspec.structs.replace(instance, status=instance_status(instance))
        instances.setdefault(instance.runner_id, []).append(instance)
    facts = {row["id"]: row for row in await tx.each(_FACTS, {"id": "text"}, keys)}
    return [_view(runner, instances.get(runner.id, []), facts[runner.id]) for runner in runners]


async def view(tx: Tx, runner: Runner) -> RunnerView:
    return (await views(tx, [runner]))[0]


def _view(runner: Runner, instances: list[Instance], facts: Row) -> RunnerView:
    latest = max(instances, key=lambda instance: instance.heard_at, default=None)
    return RunnerView(
        **msgspec.structs.asdict(runner),
        group=runner.group,
        has_worker_token=bool(facts["has_worker_token"]),
        is_assigned_to_all_modules=runner.is_shared or bool(facts["is_assigned"]),
        status=status(runner.is_draining, [instance.status for instance in instances]),
        version=latest and latest.version,
        last_seen_at=latest and latest.heard_at,
        jobs=facts["jobs"],
        capacity=sum(min(each.capacity, runner.max_jobs) for each in instances if each.is_connected),
        instances=instances,
    )
