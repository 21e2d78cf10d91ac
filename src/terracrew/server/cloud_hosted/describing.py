"""Describes a cloud-hosted runner to the cloud: its identity and its deployment, from the rows of both."""

import msgspec

from terracrew.clouds.model import CloudIdentity, Deployment
from terracrew.server.cloud_identities import store as identities
from terracrew.server.cloud_identities.model import as_cloud_identity
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.releases.model import Release
from terracrew.server.runners import reads


class ServerFacts(msgspec.Struct, frozen=True):
    """What instances and clouds know of the server."""

    url: str
    """Where instances connect to."""
    issuer: str
    """The issuer of the tokens that clouds are shown."""
    version: str
    default_image: str = ""
    """The image of deployments that name none, for the version of this server."""


class Described(msgspec.Struct, frozen=True):
    identity: CloudIdentity
    deployment: Deployment


async def describe(
    tx: Tx, runner_id: str, server: ServerFacts, *, image: str = "", version: str = ""
) -> Described | None:
    """Return how a runner is run in its cloud; None if it was removed, or has no deployment.

    Without an image that people chose, its instances have that which was deployed last. A job that deploys another one names it.
    """
    row, runner = await store.get(tx, runner_id), (await reads.records(tx, [runner_id])).get(runner_id)
    if row is None or runner is None:
        return None
    record = await identities.find(tx, row.identity_id)
    if record is None:
        return None
    settings = row.settings
    if not settings.image:
        settings = msgspec.structs.replace(settings, image=image or row.image or server.default_image)
    deployment = Deployment(
        runner_id=runner.id,
        runner_path=runner.path,
        organization_id=runner.organization_id,
        server_url=server.url,
        region=runner.region or "",
        version=version or row.version or server.version,
        account_path=runner.account_path,
        settings=settings,
        facts=row.facts,
    )
    return Described(as_cloud_identity(record, server.issuer), deployment)


RUNNER_IMAGE = "terracrew-runner"
"""The name of the runner's image among the artifacts of a release."""
VERSION_MARK = "{version}"
"""What `cloud_runner_image` has in the place of the version."""


def of_version(default_image: str, version: str) -> str:
    """Return the image of the server's settings for a version. A tag cannot have the `+` of build metadata."""
    return default_image.replace(VERSION_MARK, version.replace("+", "_"))


def of_release(release: Release, default_image: str) -> str:
    """Return the image of a release: the one that was published with it, or that of the server's settings; empty if there is none."""
    if (found := release.image(RUNNER_IMAGE)) is not None:
        return found.reference
    return of_version(default_image, release.version) if VERSION_MARK in default_image else ""
