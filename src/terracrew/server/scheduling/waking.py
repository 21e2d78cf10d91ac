"""Why a job waits for a cloud-hosted runner that starts, or that the cloud does not start, in words."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from terracrew.api.job_views import Reason
from terracrew.server.db.seam import Row, Tx
from terracrew.server.deployments import reads
from terracrew.server.deployments.model import CloudDeployment, CloudInstance
from terracrew.wording.durations import duration

RUNNERS = "/dashboard/runners"


class Waking(msgspec.Struct, frozen=True):
    """The deployments of the cloud-hosted runners that a job may use, with their instances that have not ended."""

    deployments: Mapping[str, CloudDeployment] = {}
    live: Mapping[str, list[CloudInstance]] = {}


async def read(tx: Tx, members: Iterable[Row]) -> Waking:
    """Read the deployments of these runners. Nothing is read if none of them is cloud-hosted."""
    ids = {row["id"] for row in members if row["is_cloud_hosted"]}
    if not ids:
        return Waking()
    return Waking(await reads.many(tx, ids), await reads.live_of(tx, ids))


def starting(waking: Waking, known: Iterable[Row], is_readable: Callable[[Row], bool]) -> Reason | None:
    """Return the reason of a job that waits for an instance that starts; None if none of these runners has one.

    The text stays the same while the cloud says the same; `since` says how long it takes so far.
    """
    coming = [
        (each.wanted_at, each.id, each, row)
        for row in known
        if row["can_wake"]
        for each in waking.live.get(row["id"], ())
        if each.status in ("wanted", "starting")
    ]
    if not coming:
        return None
    _, _, first, row = min(coming, key=lambda found: found[:2])
    typical = duration(waking.deployments[first.runner_id].typical_start_seconds)
    doing = f", {first.words}" if first.words else ""
    text = f"starting a cloud-hosted runner: about {typical}{doing}"
    return Reason("waking", text, f"{RUNNERS}/{first.runner_id}" if is_readable(row) else "", since=first.wanted_at)


def asleep(queued_at: datetime) -> Reason:
    """Return the reason of a job that waits for a cloud-hosted runner of which no instance was started yet."""
    return Reason("waking", "starting a cloud-hosted runner, which is asleep", since=queued_at)


def refused(waking: Waking, known: Iterable[Row], is_readable: Callable[[Row], bool], now: float) -> Reason | None:
    """Return the reason of a job whose cloud-hosted runner the cloud does not start now; None if there is no such runner.

    A runner that the reader may not see has no name in it, and nothing of what its cloud said.
    """
    at = datetime.fromtimestamp(now, UTC)
    for row in known:
        found = waking.deployments.get(row["id"])
        if found is None or found.retry_at is None or found.retry_at <= at:
            continue
        if not is_readable(row):
            text = "the cloud does not start a runner that you may not see; it is asked again"
            return Reason("wake_refused", text, since=found.refused_at, until=found.retry_at)
        text = f"the cloud does not start the runner {row['path']}, and is asked again: {found.refusal_words}"
        return Reason("wake_refused", text, f"{RUNNERS}/{row['id']}", since=found.refused_at, until=found.retry_at)
    return None
