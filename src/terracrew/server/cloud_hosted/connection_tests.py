"""What CONNECTION_TEST means: the fleet process makes every check of an identity, and changes nothing in the account."""

from collections.abc import Mapping, Sequence

import msgspec

from terracrew import __version__
from terracrew.api.deployments import DeploymentSettings
from terracrew.api.fleet_jobs import FleetJob
from terracrew.clouds.model import AwsAccount, Deployment
from terracrew.errors import NotFound
from terracrew.fleet.messages import CheckWork
from terracrew.server.cloud_hosted import describing
from terracrew.server.cloud_identities import store as identities
from terracrew.server.cloud_identities.model import IdentityRecord, as_cloud_identity
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads as deployments
from terracrew.server.fleet_jobs.handlers import FleetGrant, ServerReporter
from terracrew.settings.server import ServerSettings


class ConnectionTestHandler:
    later_steps: Sequence[tuple[str, str]] = ()

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings

    async def on_claim(self, tx: Tx, job: FleetJob) -> FleetGrant:
        record = await identities.find(tx, job.identity_id)
        if record is None:
            raise NotFound(f"the cloud identity {job.target_name} was deleted before it was tested")
        identity = as_cloud_identity(record, self._settings.issuer)
        return FleetGrant(identity, CheckWork(await self._typical(tx, record)))

    async def _typical(self, tx: Tx, record: IdentityRecord) -> Deployment:
        """Return a deployment whose needs are checked, too: one that there is, or one with the usual settings."""
        found = await deployments.many(tx, await deployments.of_identity(tx, record.id))
        settings = next((each.settings for each in found.values()), DeploymentSettings())
        if not settings.image:
            image = describing.of_version(self._settings.cloud_runner_image, __version__)
            settings = msgspec.structs.replace(settings, image=image)
        return Deployment(
            runner_id=record.id,
            runner_path=record.path,
            organization_id=record.organization_id,
            server_url=self._settings.url,
            region=record.settings.region if isinstance(record.settings, AwsAccount) else "",
            version=__version__,
            settings=settings,
        )

    async def before(self, job: FleetJob, reporter: ServerReporter) -> None:
        """There is nothing to wait for."""

    async def after(self, job: FleetJob, facts: Mapping[str, str], reporter: ServerReporter) -> dict[str, str]:
        del job, reporter
        return dict(facts)

    async def on_end(self, tx: Tx, job: FleetJob, facts: Mapping[str, str]) -> None:
        """Nothing else follows from a test."""
