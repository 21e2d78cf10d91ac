"""AWS as a cloud: what the fleet runner calls."""

from collections.abc import Sequence

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.aws import checking, deploying, destroying, report, watching
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.starting import Starter
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.contract import Reporter, SignToken
from terracrew.clouds.model import CloudIdentity, Deployment, InstanceState, StartAnswer, StartRequest

_WAITS = Waits()


class AwsCloud:
    """One account and region, as one identity sees it."""

    def __init__(
        self, identity: CloudIdentity, sign: SignToken, *, api: AwsApi | None = None, waits: Waits = _WAITS
    ) -> None:
        """Nothing is called before the first use."""
        self._api, self._waits = api or AwsApi(identity, sign), waits
        self._starter = Starter(self._api, waits)

    async def check(self, reporter: Reporter, deployment: Deployment | None = None) -> bool:
        return await checking.check(self._api, reporter, deployment)

    async def deploy(
        self, deployment: Deployment, worker_token: str, job_id: str, reporter: Reporter
    ) -> dict[str, str]:
        return await deploying.deploy(self._api, deployment, worker_token, job_id, reporter, self._waits)

    async def start(self, deployment: Deployment, wanted: Sequence[StartRequest]) -> list[StartAnswer]:
        return await self._starter.start(deployment, wanted)

    async def watch(self, deployment: Deployment, references: Sequence[str]) -> list[InstanceState]:
        return await watching.watch(self._api, deployment, references)

    async def stop(self, deployment: Deployment, reference: str, reason: str) -> None:
        await watching.stop(self._api, reference, watching.clusters(deployment)[0], reason)

    async def destroy(self, deployment: Deployment, job_id: str, reporter: Reporter) -> None:
        await destroying.destroy(self._api, deployment, job_id, reporter, self._waits)

    async def found(self) -> list[FoundResource]:
        return await report.found(self._api)

    async def close(self) -> None:
        self._api.close()
