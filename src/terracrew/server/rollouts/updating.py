"""Updates runners of both kinds: cloud-hosted ones by a new deployment, self-hosted ones by asking their processes."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from terracrew.api.fleet_jobs import FleetJob
from terracrew.api.runners import Runner
from terracrew.server.cloud_hosted import deploying, describing
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads as deployments
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.principals.model import Principal
from terracrew.server.releases.model import Release
from terracrew.server.runner_updates import service
from terracrew.wording.update_words import ByHand


class Updaters(Protocol):
    async def by_hand(self, tx: Tx, runners: Sequence[Runner], release: Release) -> Mapping[str, ByHand]:
        """Return those of the runners that a person has to update to this release, by their ids."""
        ...

    async def update(self, tx: Tx, who: Principal, runner: Runner, version: str) -> FleetJob:
        """Queue the update of a runner. Raises Conflict if that is not possible now."""
        ...


class RunnerUpdaters:
    """The `Updaters` of a server."""

    def __init__(self, cloud_runner_image: str) -> None:
        self._cloud_runner_image = cloud_runner_image

    async def by_hand(self, tx: Tx, runners: Sequence[Runner], release: Release) -> Mapping[str, ByHand]:
        deployed = await deployments.many(tx, [each.id for each in runners if each.type == "cloud-hosted"])
        found = await service.by_hand(tx, [each for each in runners if each.id not in deployed], release)
        for each in runners:
            if each.id in deployed and (words := self._in_cloud(each, deployed[each.id], release)) is not None:
                found[each.id] = words
        return found

    def _in_cloud(self, runner: Runner, deployment: CloudDeployment, release: Release) -> ByHand | None:
        if reason := deploying.by_hand_reason(deployment):
            return ByHand(reason, f"terracrew runner redeploy {shlex.quote(runner.path)} --image IMAGE")
        if deployment.status != "deployed":
            return ByHand("it is not deployed", f"terracrew runner redeploy {shlex.quote(runner.path)}")
        if not describing.of_release(release, self._cloud_runner_image):
            return ByHand(deploying.no_image_words(release.version))
        return None

    async def update(self, tx: Tx, who: Principal, runner: Runner, version: str) -> FleetJob:
        if runner.type == "cloud-hosted":
            return await deploying.update(tx, who, runner.id, version, self._cloud_runner_image)
        return await service.update(tx, who, runner.id, version)
