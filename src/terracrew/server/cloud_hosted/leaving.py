"""Decides that an idle instance may end. Nobody ends an instance that has a job, because nobody ends an instance at all.

The rule: an instance that was let go has no job, and gets none on the connection on which it asked. One transaction sees that it has
none and stops it from being given one. It locks the row of the instance, and so does the claim of an instance that may leave
(`connections.store.keep`): whichever comes second sees what the first one has committed. A claim that was made on an earlier
connection is seen, too, and one that is made on a later connection is for a process that has not had the answer.
"""

from collections.abc import Sequence

import msgspec

from terracrew.api.deployments import CloudInstance
from terracrew.server.connections import reads as connections
from terracrew.server.connections import store as instances
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.deployments.reads import InstancePresence
from terracrew.server.runners import reads as runner_reads
from terracrew.server.runners import seat_reads
from terracrew.wording.durations import duration


class Idle(msgspec.Struct, frozen=True):
    """The connection of an instance that asks to leave."""

    runner_id: str
    instance_id: str
    name: str
    epoch: int
    idle_seconds: float
    """For how long it has had no job, as it says."""


async def leave(tx: Tx, idle: Idle) -> str:
    """Let an instance go. Returns why it has to stay; empty if it may end."""
    deployment = await store.hold(tx, idle.runner_id)
    if not await instances.hold(tx, idle.instance_id, idle.epoch):
        return "a newer connection of this instance has taken its place"
    if (await connections.active_attempts(tx, [idle.instance_id]))[idle.instance_id]:
        return "it has a job"
    said = await connections.marks(tx, idle.instance_id)
    if said.is_on_trial and not said.is_retired:
        return "it is on trial"
    if deployment is not None and (reason := await _kept(tx, deployment, idle, is_retired=said.is_retired)):
        return reason
    await instances.let_go(tx, idle.runner_id, idle.instance_id)
    return ""


async def _kept(tx: Tx, deployment: CloudDeployment, idle: Idle, *, is_retired: bool) -> str:
    """Return why an instance of a cloud-hosted runner has to stay. If it may go, its row says that it leaves.

    The last one with a free slot stays for the whole idle time that people chose. Beside another one it is not missed, and costs.
    One that was retired gets no job any more, so nobody misses it.
    """
    live = await store.live_instances(tx, deployment.runner_id)
    own = next((each for each in live if each.name == idle.name), None)
    if own is None or own.status == "leaving":  # a person started it, or it asks again
        return ""
    least, kept_seconds = deployment.settings.min_instances, deployment.settings.idle_seconds
    others = sum(each.name != idle.name and deployment.counts(each) for each in live)
    record = (await runner_reads.records(tx, [deployment.runner_id])).get(deployment.runner_id)
    is_wanted = deployment.status == "deployed" and record is not None and not record.is_closed and not is_retired
    if is_wanted and others < least:
        return f"{least} instance{' of this runner is' if least == 1 else 's of this runner are'} always wanted"
    if is_wanted and idle.idle_seconds < kept_seconds and not await _has_other_free(tx, live, idle):
        return f"it is the last one with a free slot, and is kept for {duration(kept_seconds)} after its last job"
    if own.status != "running":  # its hello was not noted yet
        running = own.to("running", tx.moment)
        await store.save_instance(tx, own, running)
        own = running
    await store.save_instance(tx, own, own.to("leaving", tx.moment))
    return ""


async def _has_other_free(tx: Tx, live: Sequence[CloudInstance], idle: Idle) -> bool:
    """Return whether another instance that stays has a free slot."""
    staying = {each.name for each in live if each.name != idle.name and each.status != "leaving"}
    return any(seat.name in staying and seat.free > 0 for seat in await seat_reads.seats(tx, [idle.runner_id]))


def is_due(revision: int, row: CloudInstance, found: InstancePresence) -> bool:
    """Return whether an instance of a runner with this revision is to be retired, and does not know it."""
    return row.is_live and row.revision < revision and not found.is_retired


async def retire_older(tx: Tx, deployment: CloudDeployment) -> None:
    """Retire the instances of a deployment, which the transaction holds, that have said hello and are of an earlier revision."""
    live = [
        each for each in await store.live_instances(tx, deployment.runner_id) if each.revision < deployment.revision
    ]
    if not live:
        return
    present = (await reads.presence(tx, [deployment.runner_id]))[deployment.runner_id]
    due = [
        found.instance_id
        for each in live
        if (found := present.get(each.name)) is not None and is_due(deployment.revision, each, found)
    ]
    version = f": {deployment.version} was deployed" if deployment.version else ""
    await instances.retire(tx, deployment.runner_id, due, f"replaced by a newer deployment{version}")
