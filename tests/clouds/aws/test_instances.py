"""Instances on Fargate: started once, refused with words, followed from stage to stage, and never said to have ended too early."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from terracrew.clouds.aws import api as aws_api
from terracrew.clouds.aws import starting
from terracrew.clouds.aws.api import AwsApi, Pacer
from terracrew.clouds.aws.cloud import AwsCloud
from terracrew.clouds.aws.names import names_of
from terracrew.clouds.aws.steps.work import Waits
from terracrew.clouds.model import Deployment, InstanceRefused, InstanceStarted, InstanceState, StartRequest
from tests.machine import aws_account
from tests.machine.aws_account import Account, SaidSteps
from tests.machine.platforms.fargate import Clock, Fargate, Refusal

pytestmark = [
    pytest.mark.feature("W2.deploy"),
    pytest.mark.filterwarnings("ignore:Exception.ECSException.:UserWarning"),
]
ONE = [StartRequest("cloud-1-1")]
DISGUISED = Refusal("InvalidParameterException", "Error retrieving subnets: Rate exceeded (ErrorCode: Throttling)")


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with aws_account.opened():
        yield Account()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fargate(account: Account, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fargate]:
    monkeypatch.setattr(aws_api, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(starting, "FIRST_PAUSE_SECONDS", 0.05)
    with Fargate(clock).installed() as fargate:
        yield fargate


@pytest.fixture(scope="module")
def api(account: Account) -> Iterator[AwsApi]:
    opened = aws_account.api(pacer=Pacer(share=1000.0))
    yield opened
    opened.close()


@pytest.fixture
def cloud(api: AwsApi, fargate: Fargate) -> AwsCloud:
    return aws_account.cloud(api, Waits(propagation_seconds=5.0))


@pytest.fixture
async def made(cloud: AwsCloud) -> Deployment:
    wanted = aws_account.deployment()
    facts = await cloud.deploy(wanted, "tcw_1", "fjb_1", SaidSteps())
    return aws_account.deployment(wanted.runner_id, facts)


async def start(cloud: AwsCloud, made: Deployment, instance: str = "cloud-1-1") -> str:
    [answer] = await cloud.start(made, [StartRequest(instance)])
    assert isinstance(answer, InstanceStarted), answer
    return answer.reference


async def only(cloud: AwsCloud, made: Deployment, *references: str) -> InstanceState:
    [state] = await cloud.watch(made, references)
    return state


async def test_an_instance_is_a_task_with_its_name_and_the_marks_of_the_runner(
    cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    reference = await start(cloud, made)
    task = fargate.task(reference)
    assert fargate.variables(task)["TERRACREW_RUNNER__INSTANCE"] == "cloud-1-1"
    assert task.started_by == f"terracrew/{made.runner_id}"
    assert task.launch_type == "FARGATE"
    assert task.network_configuration["awsvpcConfiguration"]["assignPublicIp"] == "ENABLED"
    assert fargate.variables(task)["TERRACREW_RUNNER__ID"] == made.runner_id
    assert "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN" not in fargate.variables(task)


async def test_spot_and_a_private_address_are_asked_for(cloud: AwsCloud, fargate: Fargate, made: Deployment) -> None:
    chosen = aws_account.deployment(made.runner_id, made.facts, is_spot=True, has_public_address=False)
    reference = await start(cloud, chosen)
    task = fargate.task(reference)
    assert task.capacity_provider_name == "FARGATE_SPOT"
    assert task.network_configuration["awsvpcConfiguration"]["assignPublicIp"] == "DISABLED"


async def test_an_instance_that_is_asked_for_again_is_the_same_also_after_the_deployment_has_changed(
    cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    first = await start(cloud, made)
    assert await start(cloud, made) == first
    changed = aws_account.deployment(made.runner_id, made.facts, memory_mb=4096)
    facts = await cloud.deploy(changed, "", "fjb_2", SaidSteps())
    assert facts["task_definition"] != made.facts["task_definition"]
    assert await start(cloud, aws_account.deployment(made.runner_id, facts)) == first
    assert [task.task_arn for task in fargate.tasks if task.started_by.endswith(made.runner_id)] == [first]


@pytest.mark.parametrize(
    ("reason", "code", "remedy"),
    [
        ("Capacity is unavailable at this time. Please try again later", "capacity", "another size"),
        ("RESOURCE:ENI", "addresses", "further subnets"),
        ("You’ve reached the limit on the number of vCPUs you can run concurrently", "quota", "L-3032A538"),
        ("MISSING", "missing", "Deploy the runner again"),
        ("something new", "other", ""),
    ],
)
async def test_a_task_that_is_not_placed_is_a_refusal_in_the_words_of_aws(
    cloud: AwsCloud, fargate: Fargate, made: Deployment, reason: str, code: str, remedy: str
) -> None:
    fargate.failures.append({"arn": "arn:aws:ecs:x", "reason": reason})
    [refused, started] = await cloud.start(made, [*ONE, StartRequest("cloud-1-2")])
    if isinstance(refused, InstanceStarted):
        refused, started = started, refused
    assert isinstance(refused, InstanceRefused)
    assert isinstance(started, InstanceStarted)
    assert (refused.code, reason in refused.words, remedy in refused.words) == (code, True, True)


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (Refusal("AccessDeniedException", "not authorized to perform: ecs:RunTask"), "not_permitted"),
        (Refusal("BlockedException", "Your account is currently blocked"), "quota"),
        (Refusal("ClusterNotFoundException", "Cluster not found."), "missing"),
        (Refusal("ClientException", "TaskDefinition is inactive"), "missing"),
        (Refusal("InvalidParameterException", "InsufficientFreeAddressesInSubnet: none left"), "addresses"),
    ],
)
async def test_a_request_that_is_refused_says_what_to_do(
    cloud: AwsCloud, fargate: Fargate, made: Deployment, refusal: Refusal, code: str
) -> None:
    fargate.refusals["run_task"].append(refusal)
    [answer] = await cloud.start(made, ONE)
    assert isinstance(answer, InstanceRefused)
    assert answer.code == code
    assert refusal.message.rstrip(".") in answer.words


async def test_throttling_in_disguise_is_repeated(cloud: AwsCloud, fargate: Fargate, made: Deployment) -> None:
    fargate.refusals["run_task"].extend([DISGUISED, Refusal("ThrottlingException", "Rate exceeded"), DISGUISED])
    await start(cloud, made)
    assert fargate.requests.count("run_task") == 4


async def test_a_role_that_ecs_cannot_assume_yet_is_waited_for(
    cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    fargate.refusals["run_task"].extend([Refusal("ClientException", "ECS was unable to assume the role 'arn'")] * 2)
    await start(cloud, made)


async def test_a_new_role_that_is_not_visible_for_seconds_delays_a_deployment_and_does_not_fail_it(
    cloud: AwsCloud, fargate: Fargate
) -> None:
    fargate.role_lag_seconds = 0.5
    wanted, said = aws_account.deployment(), SaidSteps()
    facts = await cloud.deploy(wanted, "tcw_1", "fjb_1", said)
    await start(cloud, aws_account.deployment(wanted.runner_id, facts))
    assert [line for line in said.lines if "does not know the new role yet" in line]


async def test_an_emulator_that_is_away_is_a_silence_and_no_end(
    cloud: AwsCloud, fargate: Fargate, made: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "MAX_ANSWER_SECONDS", 0.05)
    fargate.is_away = True
    [answer] = await cloud.start(made, ONE)
    assert isinstance(answer, InstanceRefused)
    assert answer.code == "silent"


async def test_a_storm_of_starts_is_throttled_and_all_of_them_are_started(
    cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    fargate.clock = time.monotonic
    fargate.limit_rates(left=0.05)
    wanted = [StartRequest(f"cloud-2-{number}") for number in range(30)]
    answers = await cloud.start(made, wanted)
    assert [each.instance for each in answers] == [each.instance for each in wanted]
    assert all(isinstance(each, InstanceStarted) for each in answers)
    assert fargate.throttled > 0
    fargate.requests.clear()
    references = [each.reference for each in answers if isinstance(each, InstanceStarted)]
    assert len(await cloud.watch(made, references)) == len(wanted)
    assert fargate.requests == ["list_tasks", "describe_tasks"]


async def test_a_start_is_shown_stage_by_stage(
    cloud: AwsCloud, fargate: Fargate, clock: Clock, made: Deployment
) -> None:
    fargate.start_seconds = 40.0
    reference, seen = await start(cloud, made), list[tuple[str, str]]()
    for _ in range(15):
        state = await only(cloud, made, reference)
        assert state.instance == "cloud-1-1"
        if (state.phase, state.words) not in seen:
            seen.append((state.phase, state.words))
        clock.now += 3
    assert seen == [
        ("starting", "getting a machine and an address"),
        ("starting", "pulling the image"),
        ("starting", "starting"),
        ("running", "running"),
    ]


async def test_a_task_that_ecs_does_not_show_yet_or_not_any_more_has_not_ended(
    cloud: AwsCloud, fargate: Fargate, clock: Clock, made: Deployment
) -> None:
    fargate.lag_seconds = 3.0
    reference = await start(cloud, made)
    assert await cloud.watch(made, [reference]) == []
    clock.now += 4
    assert (await only(cloud, made, reference)).phase == "running"
    fargate.end(fargate.task(reference), 0)
    assert (await only(cloud, made, reference)).phase == "ended"
    clock.now += 3601
    assert await cloud.watch(made, [reference]) == []


async def test_an_image_that_cannot_be_pulled_ends_an_instance_with_words(
    cloud: AwsCloud, fargate: Fargate, clock: Clock, made: Deployment
) -> None:
    fargate.missing_images, fargate.start_seconds = {"*"}, 40.0
    reference = await start(cloud, made)
    clock.now += 30
    state = await only(cloud, made, reference)
    assert (state.phase, state.exit_code) == ("ended", None)
    assert state.words.startswith("its image cannot be pulled: CannotPullContainerError")


async def test_an_instance_that_dies_at_its_start_shows_its_last_lines(
    account: Account, cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    reference = await start(cloud, made)
    group = names_of(made.runner_id).log_group
    stream = f"instance/runner/{reference.rpartition('/')[2]}"
    account.logs.create_log_stream(logGroupName=group, logStreamName=stream)
    now = int(time.time() * 1000) - 1000
    events = [{"timestamp": now + number, "message": f"line {number}"} for number in range(50)]
    account.logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)
    fargate.end(fargate.task(reference), 3)
    state = await only(cloud, made, reference)
    assert (state.words, state.exit_code) == ("it ended with exit code 3", 3)
    assert state.last_lines == [f"line {number}" for number in range(30, 50)]


def lose_spot(fargate: Fargate, task: Any) -> None:
    fargate.interrupt(task)


def retire(fargate: Fargate, task: Any) -> None:
    fargate.retire(task)


def run_out_of_memory(fargate: Fargate, task: Any) -> None:
    fargate.end(task, 137, problem="OutOfMemoryError: Container killed due to memory usage")


def exit_well(fargate: Fargate, task: Any) -> None:
    fargate.end(task, 0)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lose_spot, "AWS took its Spot capacity back"),
        (retire, "AWS took its machine out of service"),
        (run_out_of_memory, "it was killed because its memory ran out"),
        (exit_well, "it ended with exit code 0"),
    ],
)
async def test_an_end_is_said_in_words(
    cloud: AwsCloud, fargate: Fargate, made: Deployment, end: Callable[[Fargate, Any], None], words: str
) -> None:
    reference = await start(cloud, made)
    end(fargate, fargate.task(reference))
    state = await only(cloud, made, reference)
    assert state.phase == "ended"
    assert state.words.startswith(words)


async def test_a_task_that_somebody_else_started_with_our_mark_is_shown_without_a_name_and_can_be_stopped(
    account: Account, cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    asked = starting.request(made, StartRequest("x"))
    del asked["overrides"], asked["clientToken"], asked["tags"]
    [theirs] = account.ecs.run_task(**asked)["tasks"]
    state = await only(cloud, made)
    assert (state.instance, state.reference, state.phase) == ("", theirs["taskArn"], "running")
    await cloud.stop(made, state.reference, "nobody owns it")
    assert await cloud.watch(made, []) == []
    assert (await only(cloud, made, state.reference)).words == "somebody stopped it: nobody owns it"
    await cloud.stop(made, state.reference, "nobody owns it")
    await cloud.stop(made, f"{state.reference[:-4]}0000", "it does not exist")


async def test_instances_in_the_cluster_before_a_change_are_followed_until_they_have_ended(
    account: Account, cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    old = await start(cloud, made)
    account.ecs.create_cluster(clusterName="shared")
    changed = aws_account.deployment(made.runner_id, made.facts, cluster="shared")
    facts = await cloud.deploy(changed, "", "fjb_2", SaidSteps())
    moved = aws_account.deployment(made.runner_id, facts, cluster="shared")
    new = await start(cloud, moved, "cloud-2-1")
    assert {each.reference for each in await cloud.watch(moved, [old, new])} == {old, new}
    fargate.requests.clear()
    assert [each.reference for each in await cloud.watch(moved, [new])] == [new]
    assert fargate.requests == ["list_tasks", "describe_tasks"]
    await cloud.destroy(moved, "fjb_3", SaidSteps())
    assert {each.desired_status for each in fargate.tasks if each.task_arn in (old, new)} == {"STOPPED"}
    assert account.things(made.runner_id) == {}


async def test_the_tasks_of_another_runner_are_not_shown(cloud: AwsCloud, fargate: Fargate, made: Deployment) -> None:
    other = aws_account.deployment()
    facts = await cloud.deploy(other, "tcw_1", "fjb_1", SaidSteps())
    await start(cloud, aws_account.deployment(other.runner_id, facts))
    assert await cloud.watch(made, []) == []


async def test_a_runner_that_is_not_deployed_starts_nothing(cloud: AwsCloud, fargate: Fargate) -> None:
    [answer] = await cloud.start(aws_account.deployment(), ONE)
    assert isinstance(answer, InstanceRefused)
    assert (answer.code, "Deploy it" in answer.words) == ("missing", True)
    assert fargate.requests == []


async def test_two_servers_that_start_the_same_instances_start_one_set(
    cloud: AwsCloud, fargate: Fargate, made: Deployment
) -> None:
    wanted = [StartRequest(f"cloud-3-{number}") for number in range(8)]
    one, other = await asyncio.gather(cloud.start(made, wanted), cloud.start(made, wanted))
    assert one == other
    assert len([task for task in fargate.tasks if task.started_by.endswith(made.runner_id)]) == len(wanted)
