"""Builds the message that asks an instance for its update, on the server that has the connection."""

from terracrew.protocol.messages import ArtifactRef, Update
from terracrew.server.db.seam import Tx
from terracrew.server.releases import store as releases
from terracrew.server.releases.model import Release, ReleaseArtifact
from terracrew.server.runner_updates import store


async def message(tx: Tx, update_id: str) -> Update | None:
    """Return what to send; None if the update has ended. The files of a release that was withdrawn since are refused later."""
    update = await store.get(tx, update_id)
    if update is None or not update.is_open:
        return None
    release = await releases.find(tx, update.version)
    if release is None:
        return None
    refs = [ArtifactRef(each.name, each.size_bytes, each.sha256, each.signature) for each in wheels(release)]
    return Update(update.id, update.version, refs)


def wheels(release: Release) -> list[ReleaseArtifact]:
    """Return the files that runners install."""
    return [each for each in release.artifacts if each.kind == "wheel"]
