"""Deployments and identities of the tests."""

from typing import Any

from terracrew import ids
from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.model import CloudIdentity, Deployment, KubernetesCluster

RUNNER = "rnr_0190aaaabbbb7cccddddeeeeffff0001"
ORGANIZATION = "org_0190aaaabbbb7cccddddeeeeffff0002"
SUBJECT = "organization:acme:cloud-identity:prod:x7"


def deployment(runner_id: str = RUNNER, organization_id: str = ORGANIZATION, **settings: Any) -> Deployment:
    chosen: dict[str, Any] = {"image": "registry.example/terracrew-runner:0.1.0", **settings}
    return Deployment(
        runner_id=runner_id,
        runner_path="acme/cloud",
        organization_id=organization_id,
        server_url="https://terracrew.example.com",
        region="",
        version="0.1.0",
        account_path="acme/bot",
        settings=DeploymentSettings(**chosen),
    )


def identity(
    cluster: KubernetesCluster, *, subject: str = SUBJECT, organization_id: str = ORGANIZATION
) -> CloudIdentity:
    return CloudIdentity(
        id=ids.new("cid"),
        organization_id=organization_id,
        name="prod",
        subject=subject,
        audience="kubernetes",
        issuer="https://terracrew.example.com",
        cloud=cluster,
    )
