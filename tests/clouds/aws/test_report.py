"""What of ours is in an account: found by tags and by names, with what it costs, and nothing of others."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from terracrew.api.cloud_identities import FoundResource
from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws import names, prices, report
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.model import AwsAccount, CloudIdentity, Deployment

pytestmark = pytest.mark.feature("W5.destroy")
REGION = "eu-central-1"
RUNNER = "run_01jz0000000000abcdefghij"


async def no_token(is_probe: bool = False, /) -> str:
    raise AssertionError("a workload needs no token")


def identity(organization: str = "org_1") -> CloudIdentity:
    cloud = AwsAccount(
        role_arn="arn:aws:iam::123456789012:role/terracrew-fleet", external_id="tc-1", region=REGION, way="workload"
    )
    return CloudIdentity(
        id="cid_1",
        organization_id=organization,
        name="production",
        subject="x",
        audience="y",
        issuer="https://crew.test",
        cloud=cloud,
    )


def deployment(runner_id: str = RUNNER, organization: str = "org_1") -> Deployment:
    return Deployment(
        runner_id=runner_id,
        runner_path="acme/burst",
        organization_id=organization,
        server_url="https://crew.test",
        region=REGION,
        version="1",
        settings=DeploymentSettings(),
    )


class Things:
    """Makes what deployments make, one thing at a time."""

    def __init__(self) -> None:
        boto3: Any = importlib.import_module("boto3")
        kinds = ("ecs", "iam", "logs", "ec2", "secretsmanager")
        self.ecs, self.iam, self.logs, self.ec2, self.secrets = (
            boto3.client(each, region_name=REGION) for each in kinds
        )
        self.subnet = self.ec2.describe_subnets()["Subnets"][0]

    def make_all(self, runner_id: str = RUNNER, organization: str = "org_1", *, has_tags: bool = True) -> None:
        called = names.names_of(runner_id)
        tags = names.tags_of(deployment(runner_id, organization), "fjb_7") if has_tags else {}
        listed, small = names.to_list(tags), names.to_list(tags, "key", "value")
        self.ecs.create_cluster(clusterName=called.cluster, tags=small)
        for role in (called.execution_role, called.task_role):
            self.iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}", Tags=listed)
        self.logs.create_log_group(logGroupName=called.log_group, tags=tags)
        given = [{"ResourceType": "security-group", "Tags": listed}] if tags else []
        self.ec2.create_security_group(
            GroupName=called.security_group, Description="x", VpcId=self.subnet["VpcId"], TagSpecifications=given
        )
        self.secrets.create_secret(Name=called.secret, SecretString="s", Tags=listed)
        self.ecs.register_task_definition(
            family=called.family,
            containerDefinitions=[{"name": "runner", "image": "x", "memory": 512}],
            requiresCompatibilities=["FARGATE"],
            networkMode="awsvpc",
            cpu="1024",
            memory="2048",
            tags=small,
        )

    def start(self, cluster: str, runner_id: str = RUNNER, tags: names.Tags | None = None, started_by: str = "") -> str:
        called = names.names_of(runner_id)
        answer = self.ecs.run_task(
            cluster=cluster,
            taskDefinition=called.family,
            launchType="FARGATE",
            startedBy=started_by or called.started_by,
            tags=names.to_list(tags or {}, "key", "value"),
            networkConfiguration={"awsvpcConfiguration": {"subnets": [self.subnet["SubnetId"]], "securityGroups": []}},
        )
        return answer["tasks"][0]["taskArn"]


@pytest.fixture(scope="module")
def account() -> Iterator[tuple[Any, Things]]:
    library: Any = importlib.import_module("moto")
    with pytest.MonkeyPatch.context() as patch, library.mock_aws() as mocked:
        for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")):
            patch.setenv(name, value)
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        yield mocked, Things()


@pytest.fixture
def things(account: tuple[Any, Things]) -> Things:
    """An empty account. Clients are made once, because that takes longer than everything else here."""
    mocked, made = account
    mocked.reset()
    made.subnet = made.ec2.describe_subnets()["Subnets"][0]
    return made


async def look(organization: str = "org_1") -> list[FoundResource]:
    api = AwsApi(identity(organization), no_token)
    try:
        return await report.found(api)
    finally:
        api.close()


async def test_everything_that_a_deployment_makes_is_found_with_its_runner_job_and_cost(things: Things) -> None:
    assert await look() == []
    things.make_all()
    called = names.names_of(RUNNER)
    things.start(called.cluster)
    found = await look()
    assert {(each.kind, each.name) for each in found if each.kind != "task"} == {
        ("cluster", called.cluster),
        ("role", called.execution_role),
        ("role", called.task_role),
        ("log group", called.log_group),
        ("security group", called.security_group),
        ("secret", called.secret),
        ("task definition", f"{called.family}:1"),
    }
    assert {each.runner_id for each in found} == {RUNNER}
    assert {each.job_id for each in found if each.kind != "task"} == {"fjb_7"}
    assert all(each.why and each.reference for each in found)
    by_kind = {each.kind: each for each in found}
    assert by_kind["secret"].dollars_a_month == prices.SECRET_MONTH_RATE
    assert by_kind["role"].made_at is not None
    assert by_kind["log group"].dollars_a_month == 0
    assert "0.0 MB" in by_kind["log group"].why


async def test_a_task_is_found_by_its_mark_after_it_has_lost_its_tags(things: Things) -> None:
    things.make_all()
    arn = things.start(names.names_of(RUNNER).cluster)
    (task,) = [each for each in await look() if each.kind == "task"]
    assert (task.reference, task.runner_id) == (arn, RUNNER)
    things.ecs.stop_task(cluster=names.names_of(RUNNER).cluster, task=arn)
    assert [each for each in await look() if each.kind == "task"] == []


async def test_a_task_in_a_cluster_of_people_is_found_by_its_tags(things: Things) -> None:
    things.make_all()
    things.ecs.create_cluster(clusterName="shared")
    arn = things.start("shared", tags=names.tags_of(deployment(), "fjb_7"))
    things.start("shared", started_by="somebody")
    (task,) = [each for each in await look() if each.kind == "task"]
    assert (task.reference, task.job_id) == (arn, "fjb_7")


async def test_what_has_our_names_without_our_tags_is_shown_with_a_warning(things: Things) -> None:
    things.make_all(has_tags=False)
    things.iam.create_role(RoleName="terracrew-fleet", AssumeRolePolicyDocument="{}")
    found = await look()
    assert len(found) == 7
    assert {each.runner_id for each in found} == {""}
    assert all("not our tags" in each.why for each in found)
    assert "terracrew-fleet" not in {each.name for each in found}, "the role of the identity is no leftover"


async def test_things_of_another_organization_are_not_ours(things: Things) -> None:
    """Its runners are unknown here, so they would look as if nobody owned them."""
    things.make_all(organization="org_2")
    assert await look() == []
    assert len(await look("org_2")) == 7


def test_a_task_costs_what_its_size_and_kind_say() -> None:
    task = {"cpu": "1024", "memory": "2048", "attributes": [{"name": "ecs.cpu-architecture", "value": "arm64"}]}
    expected = prices.task_dollars_an_hour(REGION, 1024, 2048, "arm64", is_spot=False)
    assert report.task_price(REGION, task) == expected
    spot = task | {"capacityProviderName": "FARGATE_SPOT"}
    assert report.task_price(REGION, spot) == pytest.approx((expected or 0) * prices.SPOT_RATIO)
    assert report.task_price(REGION, {}) is None
