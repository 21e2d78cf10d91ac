"""Starts the update of a self-hosted runner, asks its instances for it, and stores what they report."""

from collections.abc import Sequence

from terracrew import __version__, ids
from terracrew.api.fleet_jobs import FleetJob, FleetJobType, NewFleetJob
from terracrew.api.runners import Runner
from terracrew.errors import Conflict, Invalid
from terracrew.protocol.messages import ArtifactRef, Update, UpdateReport
from terracrew.server.connections import reads
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import store as releases
from terracrew.server.releases.model import Release
from terracrew.server.runner_updates import decide, model, store
from terracrew.server.runner_updates.decide import wheels
from terracrew.server.runner_updates.update_jobs import VERSION
from terracrew.server.runners import service as runners
from terracrew.wording.update_words import ByHand


async def update(tx: Tx, who: Principal, reference: str, version: str, server_version: str = __version__) -> FleetJob:
    """Queue the update of a runner to a release. Refused if the runner is updated by hand, or while another update is open."""
    runner = await runners.find(tx, who, reference, Verb.RUNNER_WRITE)
    if runner.type != "self-hosted":
        raise Conflict(f"`{runner.path}` is {runner.type}: it gets a new version by a new deployment")
    release = await releases.get(tx, version)
    instances = (await reads.newest_updatable(tx, [runner.id]))[runner.id]
    if words := decide.refusal(runner, instances, release, server_version):
        raise Conflict(words)
    assert runner.organization_id is not None
    assert runner.group_id is not None
    new = NewFleetJob(
        type=FleetJobType.UPDATE_WORKER,
        organization_id=runner.organization_id,
        group_id=runner.group_id,
        target_id=runner.id,
        target_name=runner.path,
        runner_id=runner.id,
        spec={VERSION: release.version},
    )
    return await fleet_jobs.create(tx, who, new)


async def by_hand(tx: Tx, wanted: Sequence[Runner], release: Release) -> dict[str, ByHand]:
    """Return those of these self-hosted runners that a person has to update to a release, by their ids."""
    instances = await reads.newest_updatable(tx, [each.id for each in wanted])
    found = {each.id: decide.by_hand(each, instances[each.id], release) for each in wanted}
    return {runner_id: words for runner_id, words in found.items() if words is not None}


async def update_message(tx: Tx, update_id: str) -> Update | None:
    """Return what to send; None if the update has ended. The files of a release that was withdrawn since are refused later."""
    update = await store.get(tx, update_id)
    if update is None or not update.is_open:
        return None
    release = await releases.find(tx, update.version)
    if release is None:
        return None
    refs = [ArtifactRef(each.name, each.size_bytes, each.sha256, each.signature) for each in wheels(release)]
    return Update(update.id, update.version, refs)


async def store_report(tx: Tx, instance_id: str, report: UpdateReport) -> None:
    """Store a report. One about an update that has ended, was withdrawn or is not known any more changes nothing: runners repeat
    their last report on every new connection."""
    before = await store.hold(tx, ids.parse("upd", report.update_id))
    if before is None:
        return
    if before.instance_id != instance_id:
        raise Invalid("an instance reports only about its own updates")
    after = model.reported(before, report, tx.moment)
    if after is not None:
        await store.save(tx, before, after)
