"""A removal takes away everything that deployments of the runner made, however often it is killed, and nothing else."""

from collections.abc import Iterator

import pytest

from terracrew.clouds.aws import permissions
from terracrew.clouds.aws.cloud import AwsCloud
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import names_of
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.contract import Canceled, CloudRefused, CloudSilent
from terracrew.clouds.model import AwsAccount, Deployment, InstanceStarted, StartRequest
from tests.machine import aws_account
from tests.machine.aws_account import Account, CutApi, Killed, SaidSteps

QUICK = Waits(propagation_seconds=0.05, stopping_seconds=0.05, emptying_seconds=0.05, detaching_seconds=0.05)
CHANGES = 10
"""How many calls of a removal with one task change something."""


@pytest.fixture(scope="module", autouse=True)
def account() -> Iterator[Account]:
    with aws_account.opened():
        yield Account()


@pytest.fixture(scope="module")
def shared_api(account: Account) -> Iterator[CutApi]:
    opened = CutApi(aws_account.identity())
    yield opened
    opened.close()


@pytest.fixture
def api(shared_api: CutApi) -> CutApi:
    shared_api.heal()
    return shared_api


@pytest.fixture
def cloud(api: CutApi) -> AwsCloud:
    return aws_account.cloud(api, QUICK)


async def deployed(cloud: AwsCloud) -> Deployment:
    """A deployment with one task that runs."""
    wanted = aws_account.deployment()
    facts = await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    made = aws_account.deployment(wanted.runner_id, facts)
    [started] = await cloud.start(made, [StartRequest("cloud-1-1")])
    assert isinstance(started, InstanceStarted)
    return made


def running(account: Account, cluster: str) -> list[str]:
    return account.ecs.list_tasks(cluster=cluster, desiredStatus="RUNNING")["taskArns"]


async def test_a_removal_leaves_nothing_and_the_next_one_finds_nothing(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    made, said = await deployed(cloud), SaidSteps()
    api.heal()
    await cloud.destroy(made, "fjb_2", said)
    assert len(api.changes) == CHANGES
    assert account.things(made.runner_id) == {}
    assert set(said.steps.values()) == {"done"}
    assert all(said.references[step] for step in said.steps if step != "tasks")
    again = SaidSteps()
    await cloud.destroy(made, "fjb_3", again)
    assert set(again.steps.values()) == {"done"}
    assert not any(again.references.values())


@pytest.mark.parametrize("at", range(CHANGES))
async def test_a_removal_that_is_killed_or_fails_anywhere_is_continued(
    account: Account, api: CutApi, cloud: AwsCloud, at: int
) -> None:
    made = await deployed(cloud)
    api.cut(at, "killed", happens=True)
    with pytest.raises(Killed):
        await cloud.destroy(made, "fjb_2", SaidSteps())
    api.cut(0, "silent", happens=True)
    if at < CHANGES - 1:
        with pytest.raises(CloudSilent):
            await cloud.destroy(made, "fjb_2", SaidSteps())
    api.heal()
    await cloud.destroy(made, "fjb_2", SaidSteps())
    assert account.things(made.runner_id) == {}


async def test_a_cluster_with_the_task_of_somebody_else_stays_and_is_named(account: Account, cloud: AwsCloud) -> None:
    made, said = await deployed(cloud), SaidSteps()
    account.ecs.register_task_definition(family="theirs", containerDefinitions=[THEIRS])
    cluster = made.facts["cluster"]
    [theirs] = account.ecs.run_task(cluster=cluster, taskDefinition="theirs", launchType="FARGATE")["tasks"]
    with pytest.raises(
        CloudRefused, match=rf"left in the account: cluster: the cluster {names_of(made.runner_id).cluster}"
    ):
        await cloud.destroy(made, "fjb_2", said)
    assert running(account, cluster) == [theirs["taskArn"]]
    assert list(account.things(made.runner_id)) == ["cluster"]
    account.ecs.stop_task(cluster=cluster, task=theirs["taskArn"])
    await cloud.destroy(made, "fjb_3", SaidSteps())
    assert account.things(made.runner_id) == {}


async def test_policies_that_people_have_attached_to_the_role_of_jobs_do_not_keep_it(
    account: Account, cloud: AwsCloud
) -> None:
    made = await deployed(cloud)
    role = names_of(made.runner_id).task_role
    arn = account.iam.create_policy(PolicyName=f"for-{role}", PolicyDocument=POLICY)["Policy"]["Arn"]
    account.iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    account.iam.put_role_policy(RoleName=role, PolicyName="buckets", PolicyDocument=POLICY)
    await cloud.destroy(made, "fjb_2", SaidSteps())
    assert account.things(made.runner_id) == {}
    assert account.iam.get_policy(PolicyArn=arn)


async def test_a_security_group_is_removed_as_soon_as_its_interfaces_are_detached(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    made, said, refusals = await deployed(cloud), SaidSteps(), [1]

    async def refuse(action: str) -> None:
        if action == "ec2:DeleteSecurityGroup" and refusals:
            refusals.pop()
            raise AwsRefused("it has a dependent object", aws_code="DependencyViolation", action=action)

    api.on_call = refuse
    await aws_account.cloud(api, Waits(detaching_seconds=30)).destroy(made, "fjb_2", said)
    assert account.things(made.runner_id) == {}
    assert [line for line in said.lines if "still being detached" in line]


async def test_a_role_whose_policies_are_still_shown_is_removed_a_moment_later(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    made, said, refusals = await deployed(cloud), SaidSteps(), [1]

    async def refuse(action: str) -> None:
        if action == "iam:DeleteRole" and refusals:
            refusals.pop()
            raise AwsRefused("must delete policies first", aws_code="DeleteConflict", action=action)

    api.on_call = refuse
    await aws_account.cloud(api, Waits(propagation_seconds=30)).destroy(made, "fjb_2", said)
    assert account.things(made.runner_id) == {}


async def test_one_thing_that_cannot_be_removed_does_not_keep_the_others(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    made, said = await deployed(cloud), SaidSteps()

    async def refuse(action: str) -> None:
        if action == "iam:DeleteRole":
            raise AwsRefused("iam:DeleteRole: AccessDenied", aws_code="AccessDenied", action=action)

    api.on_call = refuse
    with pytest.raises(CloudRefused, match=r"execution role: iam:DeleteRole.*task role: iam:DeleteRole"):
        await cloud.destroy(made, "fjb_2", said)
    assert list(account.things(made.runner_id)) == ["roles"]
    assert said.steps["cluster"] == "done"


async def test_a_removal_that_is_canceled_is_continued_by_the_next(account: Account, cloud: AwsCloud) -> None:
    made = await deployed(cloud)
    with pytest.raises(Canceled):
        await cloud.destroy(made, "fjb_2", SaidSteps(cancels_at="secret"))
    assert "cluster" in account.things(made.runner_id)
    await cloud.destroy(made, "fjb_3", SaidSteps())
    assert account.things(made.runner_id) == {}


async def test_the_permissions_that_people_are_shown_have_every_action_that_is_used(
    api: CutApi, cloud: AwsCloud
) -> None:
    api.requests.clear()
    made = await deployed(cloud)
    await cloud.watch(made, [])
    await cloud.destroy(made, "fjb_2", SaidSteps())
    account = aws_account.identity().cloud
    assert isinstance(account, AwsAccount)
    shown = {action for statement in permissions.needed(account) for action in statement.actions}
    assert {action for action in api.requests if not action.startswith("sts:")} - shown == set()


THEIRS = {"name": "a", "image": "theirs", "memory": 128}
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}'
