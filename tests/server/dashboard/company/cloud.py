"""Cloud identities of the company: one whose last test has failed, and one of a cluster that nobody has tested."""

from datetime import UTC, datetime, timedelta

import msgspec

from terracrew import ids
from terracrew.api.cloud_identities import FoundResource
from terracrew.api.deployments import DeploymentSettings
from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, FleetStep
from terracrew.clouds.model import AwsAccount, KubernetesCluster
from terracrew.server.cloud_identities import store as identities
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.deployments import store as deployments
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.fleet_jobs import store as fleet
from tests.server.dashboard.company.rows import Company

PASSED = (
    ("issuer", "The issuer's keys are published", "2 keys"),
    ("sign_in", "Sign-in with web identity", "arn:aws:sts::123456789012:assumed-role/crew/terracrew"),
    ("account", "It is the account that was expected", "123456789012"),
    ("others", "Another subject is turned away", "tried and refused"),
    ("may_StartTasks", "Start tasks", "1 permission"),
    ("may_Roles", "Make and remove roles named terracrew-*", "7 permissions"),
)


async def cloud_identities(made: Company, runner_id: str) -> str:
    """Make both identities; the runner is deployed with the first one, whose id is returned."""
    aws = IdentityRecord(
        id=ids.new("cid"),
        organization_id=made.organization_id,
        group_id=await made.group(""),
        group="",
        name="aws-prod",
        description="acme production",
        kind="aws",
        settings=AwsAccount(role_arn="arn:aws:iam::123456789012:role/crew", region="eu-central-1"),
        external_id="e" * 32,
        subject="organization:acme:cloud-identity:aws-prod:7f3c91e2",
        audience="sts.amazonaws.com",
        created_by=made.user_id,
        created_at=_moment(made.now - 9_000_000),
    )
    cluster = msgspec.structs.replace(
        aws,
        id=ids.new("cid"),
        name="cluster",
        description="",
        kind="kubernetes",
        settings=KubernetesCluster(api_url="https://203.0.113.7:6443", namespace="runners"),
        external_id="f" * 32,
        subject="organization:acme:cloud-identity:cluster:0b1c",
        audience="kubernetes",
    )
    await identities.insert(made.tx, aws)
    await identities.insert(made.tx, cluster)
    deployment = CloudDeployment(
        runner_id=runner_id,
        identity_id=aws.id,
        settings=DeploymentSettings(image="registry.example.com/runner:1"),
        facts={"cluster": "arn:aws:ecs:eu-central-1:123456789012:cluster/terracrew"},
        status="deployed",
    )
    await deployments.insert(made.tx, deployment)
    for number, status, age in ((901, FleetJobStatus.SUCCEEDED, 70_000), (902, FleetJobStatus.FAILED, 200)):
        await _test(made, aws, number, status, _moment(made.now - age))
    await identities.keep_found(made.tx, aws.id, _found(runner_id, _moment(made.now - 2_000_000)))
    return aws.id


async def _test(made: Company, identity: IdentityRecord, number: int, status: FleetJobStatus, at: datetime) -> None:
    job = FleetJob(
        id=ids.new("fjb"),
        organization_id=identity.organization_id,
        group_id=identity.group_id,
        number=number,
        type=FleetJobType.CONNECTION_TEST,
        status=status,
        attempt=1,
        target_id=identity.id,
        target_name=identity.path,
        runner_id=None,
        identity_id=identity.id,
        spec={},
        due_at=at,
        error="1 of 7 checks failed" if status is FleetJobStatus.FAILED else "",
        created_by=made.user_id,
        created_by_name="ada",
        created_at=at,
        claimed_at=at,
        started_at=at,
        finished_at=at + timedelta(seconds=3.4),
    )
    await fleet.insert(made.tx, job)
    steps = [
        _step(job, position, name, words, detail) for position, (name, words, detail) in enumerate(PASSED, start=1)
    ]
    if status is FleetJobStatus.FAILED:
        failed = _step(job, 7, "may_GiveRoles", "Give these roles to tasks", "iam:PassRole is missing")
        remedy = "Add the statement `GiveRoles` to the policy of the role."
        steps.append(msgspec.structs.replace(failed, status="failed", remedy=remedy))
    await fleet.put_steps(made.tx, steps)


def _step(job: FleetJob, position: int, name: str, words: str, detail: str) -> FleetStep:
    return FleetStep(
        job_id=job.id,
        attempt=1,
        name=name,
        position=position,
        words=words,
        status="done",
        detail=detail,
        started_at=job.started_at,
        finished_at=job.finished_at,
    )


def _found(runner_id: str, at: datetime) -> list[FoundResource]:
    rows = (
        ("log group", "/terracrew/warehouse-test", ids.new("rnr"), "What its tasks print", 0.20),
        ("log group", "/terracrew/frankfurt-prod", runner_id, "What its tasks print, kept 30 days", 0.10),
        ("task role", "terracrew-frankfurt-task", runner_id, "What its jobs may do", 0.0),
        ("task", "tc-frankfurt-1-0", runner_id, "Runs jobs", 10.60),
        ("secret", "terracrew/frankfurt-prod", runner_id, "The worker token of its instances", None),
    )
    return [
        FoundResource(
            kind=kind,
            name=name,
            reference=f"arn:aws:x:::{name}",
            runner_id=runner,
            made_at=at,
            why=why,
            dollars_a_month=dollars,
        )
        for kind, name, runner, why, dollars in rows
    ]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
