"""Gives the jobs that wait to the runners that would take them, so that each runner knows how many it is needed for.

It is pure. A job that a free slot of its tier serves wakes nobody, and of several runners that could be woken one is.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from terracrew.api.deployments import CloudInstance
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads
from terracrew.server.deployments.model import CloudDeployment, ScaleLimits, Supplied
from terracrew.server.runners import reads as runner_reads
from terracrew.server.runners import seat_reads
from terracrew.server.runners.reads import CloudHostedRecord
from terracrew.server.runners.seat_reads import Announced, FreeSeat
from terracrew.server.scheduling import select
from terracrew.server.scheduling.wake_demand import WakeDemand


class Waker(msgspec.Struct, frozen=True):
    """A cloud-hosted runner: what it may have, what it has, and what its next instance will be able to run."""

    limits: ScaleLimits
    instances: tuple[Supplied, ...]
    names: frozenset[str]
    """The names of its instances that the cloud was asked for."""
    announced: Announced

    @property
    def coming_slots(self) -> int:
        return sum(self.limits.capacity for each in self.instances if each.status in ("wanted", "starting"))

    @property
    def further_slots(self) -> int:
        """How many jobs the instances could take that may still be started."""
        live = sum(each.status != "ended" for each in self.instances)
        return max(0, self.limits.max_instances - live) * self.limits.capacity


def allot(demands: Iterable[WakeDemand], seats: Sequence[FreeSeat], wakers: Mapping[str, Waker]) -> dict[str, int]:
    """Return for how many waiting jobs each runner is needed, those included for which its own slots are free.

    A line of which few runners are able is served before the others, so that those do not take its slots.
    """
    free = [each.free for each in seats]
    coming = {runner_id: waker.coming_slots for runner_id, waker in wakers.items()}
    further = {runner_id: waker.further_slots for runner_id, waker in wakers.items()}
    needed: Counter[str] = Counter()
    for demand in sorted(demands, key=lambda each: (len(each.runners), each.wakeable, each.jobs)):
        left = demand.jobs
        tier = frozenset(demand.runners)
        for number, seat in enumerate(seats):
            is_able = seat.runner_id in tier and (seat.runner_id, seat.name) not in demand.paused
            if left and free[number] and is_able and select.lacks(demand.route, seat) is None:
                taken = min(left, free[number])
                free[number] -= taken
                left -= taken
                if seat.runner_id in wakers and seat.name in wakers[seat.runner_id].names:
                    needed[seat.runner_id] += taken
        able = [each for each in demand.wakeable if each in wakers and not _lacks(demand, wakers[each].announced)]
        for slots in (coming, further):
            for runner_id in able:
                taken = min(left, slots[runner_id])
                slots[runner_id] -= taken
                left -= taken
                needed[runner_id] += taken
    return {runner_id: jobs for runner_id, jobs in needed.items() if jobs}


def _lacks(demand: WakeDemand, announced: Announced) -> bool:
    return select.lacks_asleep(demand.route, announced.tags, announced.engines) is not None


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


async def read_wakers(tx: Tx, runner_ids: Collection[str], seats: Sequence[FreeSeat]) -> dict[str, Waker]:
    """Return these runners as far as they are cloud-hosted. `seats` has, among others, their instances that take jobs."""
    deployments = await reads.many(tx, runner_ids)
    live = await reads.live_of(tx, deployments)
    announced = await seat_reads.newest(tx, deployments)
    records = await runner_reads.records(tx, deployments)
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
