"""Decides how many instances of a cloud-hosted runner are started. It is pure: the caller counts, and writes what it says.

Nothing here ends an instance. An instance without a job asks to leave by itself, and the server agrees (`cloud_hosted/leaving.py`).
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from terracrew.server.deployments.model import CloudInstanceStatus


class ScaleLimits(msgspec.Struct, frozen=True):
    """What people chose."""

    min_instances: int
    max_instances: int
    capacity: int
    """How many jobs an instance runs at once."""


class Supplied(msgspec.Struct, frozen=True):
    """An instance that exists, or that the cloud was asked for."""

    status: CloudInstanceStatus
    free: int = 0
    """The free slots of one that is running; 0 if it takes no jobs. What is coming has all of its slots free."""


def free_slots(instances: Iterable[Supplied], capacity: int) -> int:
    """Return how many further jobs these instances can take, now or as soon as they have started."""
    return sum(
        capacity if each.status in ("wanted", "starting") else each.free
        for each in instances
        if each.status not in ("leaving", "ended")
    )


def instances_to_start(
    queued: int, instances: Iterable[Supplied], limits: ScaleLimits, retry_at: datetime | None, now: datetime
) -> int:
    """Return how many instances to start now.

    `queued` counts the jobs that wait for this runner. The jobs that it has are counted by the slots that they take. An
    instance that leaves is no supply, but counts as one of the allowed ones until it has ended. Nothing is started while the
    cloud's last refusal holds.
    """
    if retry_at is not None and now < retry_at:
        return 0
    live = [each for each in instances if each.status != "ended"]
    missing_slots = queued - free_slots(live, limits.capacity)
    for_jobs = -(-missing_slots // limits.capacity)
    staying = sum(each.status != "leaving" for each in live)
    wanted = max(for_jobs, limits.min_instances - staying)
    return max(0, min(wanted, limits.max_instances - len(live)))
