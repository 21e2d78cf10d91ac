"""A deployment makes everything once, however often and wherever it is killed, and leaves nothing half-made when it fails."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from terracrew import ids
from terracrew.clouds.aws.cloud import AwsCloud
from terracrew.clouds.aws.errors import AwsRefused
from terracrew.clouds.aws.names import JOB_TAG, RUNNER_TAG, from_list, names_of
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.contract import CloudRefused, CloudSilent
from tests.clouds.recorded_steps import RecordedSteps
from tests.machine import aws_account
from tests.machine.aws_account import Account, CutApi, Killed, SaidSteps

ONE_OF_EACH = {
    "cluster": 1,
    "roles": 2,
    "log_group": 1,
    "security_group": 1,
    "secret": 1,
    "task_definition": 1,
}
QUICK = Waits(propagation_seconds=0.05, stopping_seconds=0.05, emptying_seconds=0.05, detaching_seconds=0.05)
CHANGES = 9
"""How many calls of a first deployment change something. `test_a_deployment_makes_one_of_each` checks it."""


@pytest.fixture(scope="module", autouse=True)
def account() -> Iterator[Account]:
    with aws_account.opened():
        yield Account()


@pytest.fixture(scope="module")
def shared_api(account: Account) -> Iterator[CutApi]:
    """Making the clients of the library takes longer than all calls of a test."""
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


def counted(things: dict[str, list[str]]) -> dict[str, int]:
    return {kind: len(each) for kind, each in things.items()}


async def test_a_deployment_makes_one_of_each_and_the_next_one_makes_nothing(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    wanted, said = aws_account.deployment(), SaidSteps()
    facts = await cloud.deploy(wanted, "tcw_1", "fjb_1", said)
    assert counted(account.things(wanted.runner_id)) == ONE_OF_EACH
    assert set(said.steps.values()) == {"done"}
    assert all(said.references.values())
    assert len(api.changes) == CHANGES
    again = SaidSteps()
    assert await cloud.deploy(wanted, "tcw_1", "fjb_2", again) == facts
    assert counted(account.things(wanted.runner_id)) == ONE_OF_EACH
    assert again.references == said.references


async def test_the_token_is_in_the_secret_store_and_nowhere_else(account: Account, cloud: AwsCloud) -> None:
    wanted, said = aws_account.deployment(), SaidSteps()
    facts = await cloud.deploy(wanted, "tcw_very_secret", "fjb_1", said)
    stored = account.secrets.get_secret_value(SecretId=facts["secret"])
    assert stored["SecretString"] == "tcw_very_secret"
    shown = account.ecs.describe_task_definition(taskDefinition=facts["task_definition"])
    [container] = shown["taskDefinition"]["containerDefinitions"]
    assert container["secrets"] == [
        {"name": "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN", "valueFrom": facts["secret"]}
    ]
    assert "tcw_very_secret" not in json.dumps([shown, facts, said.lines, said.references], default=str)
    await cloud.deploy(wanted, "tcw_next", "fjb_2", SaidSteps())
    assert account.secrets.get_secret_value(SecretId=facts["secret"])["SecretString"] == "tcw_next"
    await cloud.deploy(wanted, "", "fjb_3", SaidSteps())
    assert account.secrets.get_secret_value(SecretId=facts["secret"])["SecretString"] == "tcw_next"


async def test_a_task_gets_two_minutes_to_stop_and_the_variables_of_a_runner(account: Account, cloud: AwsCloud) -> None:
    wanted = aws_account.deployment(capacity=3, architecture="arm64", cpu_units=512, memory_mb=2048, log_days=20)
    facts = await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    definition = account.ecs.describe_task_definition(taskDefinition=facts["task_definition"])["taskDefinition"]
    [container] = definition["containerDefinitions"]
    variables = {each["name"]: each["value"] for each in container["environment"]}
    assert variables["TERRACREW_RUNNER__CAPACITY"] == "3"
    assert variables["TERRACREW_RUNNER__ID"] == wanted.runner_id
    assert container["stopTimeout"] == 120
    assert container["linuxParameters"]["initProcessEnabled"] is True
    assert container["logConfiguration"]["options"]["awslogs-group"] == names_of(wanted.runner_id).log_group
    assert (definition["cpu"], definition["memory"], definition["networkMode"]) == ("512", "2048", "awsvpc")
    assert definition["runtimePlatform"]["cpuArchitecture"] == "ARM64"
    [group] = account.logs.describe_log_groups(logGroupNamePrefix=names_of(wanted.runner_id).log_group)["logGroups"]
    assert group["retentionInDays"] == 30  # the next longer time that CloudWatch has
    [made] = account.ec2.describe_security_groups(GroupIds=[facts["security_group"]])["SecurityGroups"]
    assert made["IpPermissions"] == []


async def test_a_federated_runner_has_no_secret_and_a_role_that_gets_tokens(account: Account, cloud: AwsCloud) -> None:
    wanted = aws_account.deployment(credential="federated")
    facts = await cloud.deploy(wanted, "", "fjb_1", SaidSteps())
    assert "secret" not in facts
    assert "secret" not in account.things(wanted.runner_id)
    policy = account.iam.get_role_policy(RoleName=names_of(wanted.runner_id).task_role, PolicyName="terracrew")
    assert policy["PolicyDocument"]["Statement"][0]["Action"] == "sts:GetWebIdentityToken"


async def test_a_role_and_a_cluster_that_people_name_are_used_and_never_removed(
    account: Account, cloud: AwsCloud
) -> None:
    account.ecs.create_cluster(clusterName="shared")
    wanted = aws_account.deployment(cluster="shared", job_role="arn:aws:iam::123456789012:role/jobs")
    facts = await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    assert facts["cluster"].endswith(":cluster/shared")
    assert facts["task_role"] == "arn:aws:iam::123456789012:role/jobs"
    assert "cluster" not in account.things(wanted.runner_id)
    assert counted(account.things(wanted.runner_id))["roles"] == 1
    await cloud.destroy(wanted, "fjb_2", SaidSteps())
    assert account.things(wanted.runner_id) == {}
    assert account.ecs.describe_clusters(clusters=["shared"])["clusters"][0]["status"] == "ACTIVE"


@pytest.mark.parametrize("at", range(CHANGES))
async def test_a_call_that_is_repeated_because_its_answer_was_lost_makes_nothing_twice(
    account: Account, api: CutApi, cloud: AwsCloud, at: int
) -> None:
    wanted, said = aws_account.deployment(), SaidSteps()
    api.cut(at, "repeated", happens=True)
    await cloud.deploy(wanted, "tcw_1", "fjb_1", said)
    things = account.things(wanted.runner_id)
    assert things.pop("task_definition")[0] == said.references["task_definition"]
    assert counted(things) == {kind: count for kind, count in ONE_OF_EACH.items() if kind != "task_definition"}


@pytest.mark.parametrize("at", range(CHANGES))
@pytest.mark.parametrize(("fault", "happens"), [("refused", False), ("silent", True)])
async def test_a_deployment_that_fails_anywhere_leaves_nothing(
    account: Account, api: CutApi, cloud: AwsCloud, at: int, fault: Any, happens: bool
) -> None:
    wanted, said = aws_account.deployment(), SaidSteps()
    api.cut(at, fault, happens=happens)
    with pytest.raises(CloudRefused if fault == "refused" else CloudSilent):
        await cloud.deploy(wanted, "tcw_1", "fjb_1", said)
    assert account.things(wanted.runner_id) == {}
    assert said.steps.pop("unwind") == "done"
    assert list(said.steps.values())[-1].startswith("failed: ")
    assert "running" not in said.steps.values()


async def test_what_an_earlier_attempt_of_the_same_job_made_is_removed_too(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    wanted = aws_account.deployment()
    api.cut(6, "killed", happens=True)
    with pytest.raises(Killed):
        await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    api.cut(0, "refused", happens=False)
    with pytest.raises(CloudRefused):
        await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    assert account.things(wanted.runner_id) == {}


async def test_a_change_that_fails_keeps_everything_of_the_deployment_before(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    first = aws_account.deployment()
    facts = await cloud.deploy(first, "tcw_1", "fjb_1", SaidSteps())
    before = account.things(first.runner_id)
    changed = aws_account.deployment(first.runner_id, facts, cpu_units=512, memory_mb=1024)

    async def refuse(action: str) -> None:
        if action == "ecs:ListTaskDefinitions":
            api.on_call = nothing
            raise AwsRefused(f"{action}: no", aws_code="AccessDenied", action=action)

    async def nothing(_action: str) -> None:
        return

    api.on_call = refuse
    with pytest.raises(CloudRefused):
        await cloud.deploy(changed, "tcw_2", "fjb_2", SaidSteps())
    left = account.things(first.runner_id)
    assert {kind: each for kind, each in left.items() if kind != "task_definition"} == {
        kind: each for kind, each in before.items() if kind != "task_definition"
    }
    active = account.ecs.list_task_definitions(familyPrefix=names_of(first.runner_id).family, status="ACTIVE")
    assert active["taskDefinitionArns"] == [facts["task_definition"]]


async def test_the_revision_that_tasks_were_started_from_last_stays_beside_the_new_one(
    account: Account, cloud: AwsCloud
) -> None:
    deployment = aws_account.deployment()
    facts = await cloud.deploy(deployment, "tcw_1", "fjb_1", SaidSteps())
    family = names_of(deployment.runner_id).family
    for number, memory_mb in enumerate((3072, 4096, 5120)):
        changed = aws_account.deployment(deployment.runner_id, facts, memory_mb=memory_mb)
        new = await cloud.deploy(changed, "", f"fjb_{number}", SaidSteps())
        active = account.ecs.list_task_definitions(familyPrefix=family, status="ACTIVE")["taskDefinitionArns"]
        assert active == [facts["task_definition"], new["task_definition"]]


async def test_what_cannot_be_removed_after_a_failure_is_named(account: Account, api: CutApi, cloud: AwsCloud) -> None:
    wanted, said = aws_account.deployment(), SaidSteps()

    async def refuse(action: str) -> None:
        if action in ("ecs:RegisterTaskDefinition", "logs:DeleteLogGroup"):
            raise AwsRefused(f"{action}: AccessDenied", aws_code="AccessDenied", action=action)

    api.on_call = refuse
    with pytest.raises(
        CloudRefused, match=r"RegisterTaskDefinition.*left in the account: log group: logs:DeleteLogGroup"
    ):
        await cloud.deploy(wanted, "tcw_1", "fjb_1", said)
    assert list(account.things(wanted.runner_id)) == ["log_group"]
    assert said.steps["unwind"].startswith("failed: left: log group")


def make_log_group(account: Account, runner_id: str) -> None:
    account.logs.create_log_group(logGroupName=names_of(runner_id).log_group, tags={"owner": "somebody"})


def make_role(account: Account, runner_id: str) -> None:
    account.iam.create_role(RoleName=names_of(runner_id).task_role, AssumeRolePolicyDocument="{}")


def make_cluster(account: Account, runner_id: str) -> None:
    account.ecs.create_cluster(clusterName=names_of(runner_id).cluster)


def make_secret(account: Account, runner_id: str) -> None:
    account.secrets.create_secret(Name=names_of(runner_id).secret, SecretString="theirs")


@pytest.mark.parametrize("make", [make_log_group, make_role, make_cluster, make_secret])
async def test_what_somebody_else_has_made_under_our_name_is_neither_used_nor_removed(
    account: Account, cloud: AwsCloud, make: Any
) -> None:
    wanted = aws_account.deployment()
    make(account, wanted.runner_id)
    before = account.things(wanted.runner_id)
    with pytest.raises(CloudRefused, match="was not made for this runner"):
        await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    assert account.things(wanted.runner_id) == before
    await cloud.destroy(wanted, "fjb_2", SaidSteps())
    assert account.things(wanted.runner_id) == before


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"cpu_units": 300}, "256, 512, 1024, 2048, 4096, 8192, 16384"),
        ({"cpu_units": 256, "memory_mb": 4096}, "choose 512, 1024 or 2048 MB"),
        ({"cpu_units": 8192, "memory_mb": 17408}, "choose 16384 to 61440 in steps of 4096 MB"),
        ({"image": ""}, "names no image"),
        ({"subnets": ["subnet-0123456789abcdef0"]}, "does not exist in eu-central-1"),
        ({"cluster": "nowhere"}, "there is no cluster nowhere"),
    ],
)
async def test_settings_that_cannot_be_deployed_are_refused_with_what_can_be(
    account: Account, cloud: AwsCloud, chosen: Any, words: str
) -> None:
    wanted = aws_account.deployment(**chosen)
    with pytest.raises(CloudRefused, match=words):
        await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    assert account.things(wanted.runner_id) == {}


async def test_a_role_that_ecs_does_not_know_yet_is_waited_for_with_words(
    account: Account, api: CutApi, cloud: AwsCloud
) -> None:
    wanted, said, refusals = aws_account.deployment(), SaidSteps(), [1, 2]

    async def refuse(action: str) -> None:
        if action == "ecs:RegisterTaskDefinition" and refusals:
            refusals.pop()
            words = "ecs:RegisterTaskDefinition: AccessDenied: not authorized to perform iam:PassRole"
            raise AwsRefused(words, aws_code="AccessDenied", action=action)

    api.on_call = refuse
    patient = aws_account.cloud(api, Waits(propagation_seconds=30))
    await patient.deploy(wanted, "tcw_1", "fjb_1", said)
    assert [line for line in said.lines if "does not know the new role yet" in line]
    assert counted(account.things(wanted.runner_id)) == ONE_OF_EACH


async def test_a_named_role_that_may_not_be_given_to_tasks_is_refused_at_once(api: CutApi) -> None:
    named = "arn:aws:iam::123456789012:role/jobs"

    async def refuse(action: str) -> None:
        if action == "ecs:RegisterTaskDefinition":
            words = f"{action}: AccessDenied: not authorized to perform iam:PassRole on resource: {named}"
            raise AwsRefused(words, aws_code="AccessDenied", action=action)

    api.on_call = refuse
    patient, said = aws_account.cloud(api, Waits()), SaidSteps()
    with pytest.raises(CloudRefused, match="PassRole"):
        await patient.deploy(aws_account.deployment(job_role=named), "tcw_1", "fjb_1", said)
    assert not [line for line in said.lines if "Asking again" in line]


async def test_everything_says_for_which_runner_and_by_which_job_it_was_made(account: Account, cloud: AwsCloud) -> None:
    wanted, job = aws_account.deployment(), ids.new("fjb")
    facts = await cloud.deploy(wanted, "tcw_1", job, SaidSteps())
    shown = account.ecs.describe_task_definition(taskDefinition=facts["task_definition"], include=["TAGS"])
    cluster = account.ecs.describe_clusters(clusters=[facts["cluster"]], include=["TAGS"])["clusters"][0]
    role = account.iam.get_role(RoleName=names_of(wanted.runner_id).task_role)["Role"]
    for tags in (
        from_list(shown["tags"]),
        from_list(cluster["tags"]),
        from_list(role["Tags"]),
        from_list(account.secrets.describe_secret(SecretId=facts["secret"])["Tags"]),
        account.logs.list_tags_for_resource(resourceArn=facts["log_group"])["tags"],
    ):
        assert (tags[RUNNER_TAG], tags[JOB_TAG]) == (wanted.runner_id, job)


async def test_a_failed_step_says_apart_how_to_mend_it(cloud: AwsCloud, api: CutApi) -> None:
    async def refuse(action: str) -> None:
        if action == "ecs:RegisterTaskDefinition":
            raise AwsRefused(f"{action} is denied. Add it.", aws_code="AccessDenied", action=action, remedy="Add it.")

    api.on_call = refuse
    steps = RecordedSteps()
    with pytest.raises(AwsRefused):
        await cloud.deploy(aws_account.deployment(), "tcw_secret", ids.new("fjb"), steps)
    assert steps.refused["task_definition"] == ("ecs:RegisterTaskDefinition is denied.", "Add it.")
