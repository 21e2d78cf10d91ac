"""Counts what cloud-hosted runners have: instances, free slots, and what their next instance will be able to run."""

from collections.abc import Collection, Mapping, Sequence

from terracrew.server.cloud_hosted.demand import Waker
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads
from terracrew.server.deployments.model import CloudDeployment, CloudInstance
from terracrew.server.deployments.scale import ScaleLimits, Supplied
from terracrew.server.runners import cloud_reads, seat_reads
from terracrew.server.runners.cloud_reads import CloudHostedRecord
from terracrew.server.runners.seat_reads import FreeSeat


def limits(deployment: CloudDeployment, runner: CloudHostedRecord) -> ScaleLimits:
    """Return what people chose about a runner. A record that is disabled, drains or is being removed starts nothing."""
    chosen = deployment.settings
    if runner.is_closed or deployment.status != "deployed":
        return ScaleLimits(0, 0, 1)
    least = min(chosen.min_instances, chosen.max_instances)
    return ScaleLimits(least, chosen.max_instances, min(chosen.capacity, runner.max_jobs))


def supplied(
    deployment: CloudDeployment, instances: Sequence[CloudInstance], seats: Mapping[str, FreeSeat]
) -> tuple[Supplied, ...]:
    """Return the instances with their free slots; `seats` has those that take jobs, by name.

    One that has said hello is running, even if its row does not say so yet. One of an earlier revision is left out, whether or not
    its process knows already that it is retired: its last job may take hours, in which the allowed ones must be able to start.
    """
    found: list[Supplied] = []
    for each in instances:
        seat = seats.get(each.name)
        if each.revision < deployment.revision:
            continue
        if each.status == "leaving":
            found.append(Supplied("leaving"))
        elif each.status in ("wanted", "starting") and seat is None:
            found.append(Supplied(each.status))
        else:
            is_running = each.status in ("wanted", "starting", "running")
            found.append(Supplied("running" if is_running else each.status, 0 if seat is None else seat.free))
    return tuple(found)


async def wakers(tx: Tx, runner_ids: Collection[str], seats: Sequence[FreeSeat]) -> dict[str, Waker]:
    """Return these runners as far as they are cloud-hosted. `seats` has, among others, their instances that take jobs."""
    deployments = await reads.many(tx, runner_ids)
    live = await reads.live_of(tx, deployments)
    announced = await seat_reads.newest(tx, deployments)
    records = await cloud_reads.records(tx, deployments)
    found: dict[str, Waker] = {}
    for runner_id in deployments.keys() & records.keys():
        deployment = deployments[runner_id]
        own = {seat.name: seat for seat in seats if seat.runner_id == runner_id}
        instances = live.get(runner_id, [])
        found[runner_id] = Waker(
            limits(deployment, records[runner_id]),
            supplied(deployment, instances, own),
            frozenset(each.name for each in instances),
            announced[runner_id],
        )
    return found
