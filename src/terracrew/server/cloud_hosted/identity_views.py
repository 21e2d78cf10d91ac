"""Cloud identities as people see them: what uses them, how their last test ended, and what to paste into the account."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from terracrew.api.access import RunnerReference
from terracrew.api.cloud_identities import IdentityPolicies, IdentityView, PolicyDocument
from terracrew.api.deployments import DeploymentSettings
from terracrew.api.fleet_jobs import FleetJob, FleetJobType, NewFleetJob
from terracrew.api.pages import Page
from terracrew.clouds.aws import policies as aws_policies
from terracrew.clouds.kubernetes import policies as kubernetes_policies
from terracrew.clouds.model import CloudIdentity, KubernetesCluster
from terracrew.server.cloud_identities import reads, rules, service
from terracrew.server.cloud_identities.model import IdentityRecord, as_cloud_identity
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads as deployments
from terracrew.server.fleet_jobs import reads as fleet_reads
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


async def listing(
    tx: Tx, who: Principal, issuer: str, usable_in: str | None, after: str | None, limit: int
) -> Page[IdentityView]:
    """Return the identities that the caller may see, or those that the runners of a group may use."""
    if usable_in is None:
        found = await service.listing(tx, who, after, limit)
        return Page(await _views(tx, found.items, issuer), found.next)
    organization_id = who.organization_id or ""
    await authorize.require(tx, who, Verb.RUNNER_WRITE, authorize.group(organization_id, usable_in))
    found = await _views(tx, await reads.usable_in(tx, organization_id, usable_in), issuer)
    return Page([_without_others(each, usable_in) for each in found])


def _without_others(view: IdentityView, group: str) -> IdentityView:
    """Leave out the runners of other groups: the identity may be of a group above, in which the caller has no role."""
    seen = [each for each in view.runners if not group or each.path.startswith(f"{group}/")]
    return msgspec.structs.replace(view, runners=seen)


async def show(tx: Tx, who: Principal, reference: str, issuer: str) -> IdentityView:
    (found,) = await _views(tx, [await service.find(tx, who, reference)], issuer)
    return found


async def view(tx: Tx, record: IdentityRecord, issuer: str) -> IdentityView:
    """Return an identity that the caller has found."""
    (found,) = await _views(tx, [record], issuer)
    return found


async def test(tx: Tx, who: Principal, reference: str) -> FleetJob:
    """Queue a test of the connection: sign in, check each permission, then what a deployment would need. It changes nothing there."""
    found = await service.find(tx, who, reference, Verb.RUNNER_WRITE)
    new = NewFleetJob(
        type=FleetJobType.CONNECTION_TEST,
        organization_id=found.organization_id,
        group_id=found.group_id,
        target_id=found.id,
        target_name=found.path,
        identity_id=found.id,
    )
    return await fleet_jobs.create(tx, who, new)


async def policies(tx: Tx, who: Principal, reference: str, issuer: str) -> IdentityPolicies:
    """Return what has to be in the account, with the clusters and roles that deployments of the identity name."""
    record = await service.find(tx, who, reference)
    return await policies_of(tx, record, issuer)


async def policies_of(tx: Tx, record: IdentityRecord, issuer: str) -> IdentityPolicies:
    runner_ids = await deployments.of_identity(tx, record.id)
    settings = [each.settings for each in (await deployments.many(tx, runner_ids)).values()]
    identity = as_cloud_identity(record, issuer)
    documents = _aws(identity, settings) if record.kind == "aws" else _kubernetes(identity)
    return IdentityPolicies(record.subject, record.external_id, documents)


def _aws(identity: CloudIdentity, settings: Sequence[DeploymentSettings]) -> list[PolicyDocument]:
    clusters = sorted({each.cluster for each in settings if each.cluster})
    job_roles = sorted({each.job_role for each in settings if each.job_role})
    allowed = aws_policies.permission_policy(identity, clusters=clusters, job_roles=job_roles)
    statements, actions = len(allowed["Statement"]), sum(_count(each["Action"]) for each in allowed["Statement"])
    return [
        PolicyDocument(
            "trust",
            "Trust policy",
            "who may use the role",
            "json",
            aws_policies.to_json(aws_policies.trust_policy(identity)),
        ),
        PolicyDocument(
            "permissions",
            "Permissions",
            f"what the role may do, {actions} in {statements} statements",
            "json",
            aws_policies.to_json(allowed),
        ),
        PolicyDocument(
            "opentofu",
            "Role and policies",
            "both, and the identity provider, for OpenTofu or Terraform",
            "hcl",
            aws_policies.to_opentofu(identity, clusters=clusters, job_roles=job_roles),
        ),
    ]


def _count(actions: str | list[str]) -> int:
    return 1 if isinstance(actions, str) else len(actions)


def _kubernetes(identity: CloudIdentity) -> list[PolicyDocument]:
    documents = [
        PolicyDocument(
            "objects",
            "Namespace, Role and RoleBinding",
            "what the identity may do, for `kubectl apply --filename -`",
            "yaml",
            kubernetes_policies.to_yaml(kubernetes_policies.objects(identity)),
        )
    ]
    if isinstance(identity.cloud, KubernetesCluster) and identity.cloud.way == "web_identity":
        documents += [
            PolicyDocument(
                "authentication",
                "Authentication configuration",
                "lets the cluster's API accept the tokens, with --authentication-config",
                "yaml",
                kubernetes_policies.to_yaml([kubernetes_policies.authentication(identity)]),
            ),
            PolicyDocument(
                "flags",
                "Options of the API server",
                "the same for an API server without such a file",
                "text",
                "\n".join(kubernetes_policies.flags(identity)) + "\n",
            ),
        ]
    return documents


async def _views(tx: Tx, records: Sequence[IdentityRecord], issuer: str) -> list[IdentityView]:
    users = await reads.runners_of(tx, *(each.id for each in records))
    return [
        _view(each, issuer, users[each.id], await fleet_reads.newest(tx, each.id, FleetJobType.CONNECTION_TEST))
        for each in records
    ]


def _view(
    record: IdentityRecord, issuer: str, users: list[RunnerReference], last_test: FleetJob | None
) -> IdentityView:
    known = asdict(record.settings) | asdict(record)
    for name in ("settings", "group_id"):
        del known[name]
    return IdentityView(
        **known,
        path=record.path,
        location=rules.location(record.settings),
        account=rules.account_of(known.get("role_arn", "")),
        issuer=issuer,
        runners=users,
        last_test=last_test,
    )
