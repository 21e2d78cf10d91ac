"""Bad days of the dispatcher `ecs`, on the emulator of ECS. Where a test needs a task that runs, it runs for real in Docker."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.attempt import directories, exit_codes, files
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.ecs import tasks
from terracrew.runner.dispatch.ecs.dispatcher import Ecs
from terracrew.runner.dispatch.ecs.settings import EcsSettings
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.machine import platforms
from tests.machine.network_gate import NetworkGate
from tests.machine.platforms import ecs_agent, executor_image
from tests.machine.platforms.ecs_agent import EcsAgent

pytestmark = [
    pytest.mark.platform("aws"),
    pytest.mark.feature("D1.others", "D5.ecs", "D6.watched"),
    pytest.mark.timeout(300),
]
MAX_SECONDS = 120.0
needs_containers = [pytest.mark.engine, pytest.mark.platform("aws", "docker")]
OpenEcs = Callable[..., Ecs]


@pytest.fixture
def agent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[EcsAgent]:
    endpoint = platforms.need("aws")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    if request.node.get_closest_marker("engine"):
        docker = platforms.need("docker")
        agent = EcsAgent(endpoint, docker, executor_image.image(docker))
    else:
        agent = EcsAgent(endpoint)
    yield agent
    agent.close()


@pytest.fixture
async def hub() -> AsyncIterator[FakeExecutorHub]:
    hub = FakeExecutorHub()
    await hub.start()
    yield hub
    await hub.stop()


@pytest.fixture
async def gate() -> AsyncIterator[NetworkGate]:
    gate = NetworkGate()
    await gate.listen()
    yield gate
    await gate.close()


@pytest.fixture
async def opened(agent: EcsAgent, tmp_path: Path) -> AsyncIterator[OpenEcs]:
    made: list[Ecs] = []

    def make(key: str = "", start_seconds: float = 60.0, forgotten_seconds: float = 1.0) -> Ecs:
        chosen = EcsSettings(
            ecs_agent.FAMILY,
            ecs_agent.REGION,
            agent.cluster,
            "fargate",
            subnets=[agent.subnet],
            security_groups=[agent.security_group],
            start_seconds=start_seconds,
            endpoint_url=platforms.need("aws"),
        )
        owner = tasks.TaskOwner.for_key("", "rnr_1", "one")
        dispatcher = Ecs(chosen, owner, poll_seconds=0.1, forgotten_seconds=forgotten_seconds)
        dispatcher.use_instance(key or str(tmp_path))
        made.append(dispatcher)
        return dispatcher

    yield make
    for each in made:
        await each.close()


@pytest.fixture
def start(hub: FakeExecutorHub, tmp_path: Path, gate: NetworkGate) -> ExecutorStart:
    return _start(hub, tmp_path, gate)


def _start(hub: FakeExecutorHub, folder: Path, gate: NetworkGate, number: int = 1) -> ExecutorStart:
    processes = ExecutorProcesses(hub, folder)
    held = f'resource "terraform_data" "held" {{\n  {gate.provisioner()}\n}}\n'
    hub.archive = module(folder / "source", main=held)
    spec = processes.spec(JobType.APPLY, hub.archive, job_id=f"job_{number}")
    start = processes.start_of(spec)
    assert start.granted
    directory = directories.create(folder, start.granted, start.server_url)
    return msgspec.structs.replace(start, directory=str(directory))


async def _not_started(dispatcher: Ecs, handle: Any) -> str:
    with pytest.raises(NotStarted) as error:
        async with asyncio.timeout(MAX_SECONDS):
            await dispatcher.watch(handle)
    return error.value.message


async def _until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(MAX_SECONDS):
        while not condition():
            await asyncio.sleep(0.05)


async def test_a_task_that_never_starts_is_handed_back_and_cannot_start_later(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub
) -> None:
    agent.is_capable = False
    dispatcher = opened(start_seconds=1.0)
    handle = await dispatcher.start(start)
    assert dispatcher.waits_for(handle) == "Requesting a task of ECS"
    said = await _not_started(dispatcher, handle)
    assert dispatcher.waits_for(handle) == "Starting a task of ECS: its status is PROVISIONING"
    assert said == "its task did not start within 1 seconds: its status is PROVISIONING"
    assert not hub.starts, "the ticket is worth nothing any more"
    await _until(lambda: agent.task_of(Path(start.directory).name).last_status == "STOPPED")


async def test_a_task_whose_image_cannot_be_pulled_has_the_words_of_ecs(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart
) -> None:
    def fail(task: Any) -> None:
        task.stop_code, task.stopped_reason = "TaskFailedToStart", "CannotPullContainerError: manifest unknown"
        task.desired_status = task.last_status = "STOPPED"

    agent.before_run = fail
    dispatcher = opened()
    said = await _not_started(dispatcher, await dispatcher.start(start))
    assert said == "its image cannot be pulled: CannotPullContainerError: manifest unknown"


@pytest.mark.parametrize(("code", "words"), [(255, "its container was found dead"), (1, "ended with exit code 1")])
async def test_a_task_that_has_its_start_and_ends_with_a_code_of_the_runtime_may_have_begun(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub, code: int, words: str
) -> None:
    """Symptom: a task whose machine was restarted in the middle of an apply was handed back as one that never began."""

    def fetch_and_end(task: Any) -> None:
        [ticket] = hub.starts
        hub.claims[ticket] = "the claim of the task"
        _end_task(task, code)

    agent.before_run = fetch_and_end
    dispatcher = opened()
    async with asyncio.timeout(MAX_SECONDS):
        ended = await dispatcher.watch(await dispatcher.start(start))
    assert ended.code == exit_codes.NOTHING_LEFT
    assert words in ended.reason


@pytest.mark.parametrize("code", [255, 1])
async def test_a_task_that_nobody_gave_its_start_has_not_begun(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, code: int
) -> None:
    agent.before_run = lambda task: _end_task(task, code)
    dispatcher = opened()
    assert "its container" in await _not_started(dispatcher, await dispatcher.start(start))


def _end_task(task: Any, code: int) -> None:
    task.containers[0].exitCode = code
    task.stop_code, task.stopped_reason = "EssentialContainerExited", "Essential container in task exited"
    task.desired_status = task.last_status = "STOPPED"


async def test_a_task_that_is_not_placed_or_refused_is_handed_back(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub
) -> None:
    agent.is_placed = False
    dispatcher = opened()
    assert "its task was not started" in await _not_started(dispatcher, await dispatcher.start(start))
    assert not (Path(start.directory) / files.CONTAINER).exists()
    assert not hub.starts
    asks_for_image = msgspec.structs.replace(start, choice=msgspec.structs.replace(start.choice, image="other"))
    assert "cannot choose an image" in await _not_started(dispatcher, await dispatcher.start(asks_for_image))


async def test_a_start_is_canceled_before_there_is_a_task(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub
) -> None:
    await hub.stop()  # the start cannot be given to the server
    dispatcher = opened()
    handle = await dispatcher.start(start)
    await dispatcher.stop(handle, "interrupt")
    assert "canceled" in await _not_started(dispatcher, handle)
    assert not agent.tasks
    await hub.start()


async def test_a_runner_that_died_while_it_requested_a_task_hands_back_what_was_not_begun(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub
) -> None:
    agent.is_capable = False
    first = opened()
    await first.start(start)
    await _until(lambda: agent.tasks)
    await first.close()
    (Path(start.directory) / files.CONTAINER).write_bytes(b"")
    second = opened()
    assert "while it requested" in await _not_started(second, second.adopt(Path(start.directory)))
    assert not hub.starts, "the task cannot begin, whenever it gets a machine"
    await second.place.sweep(list)
    await _until(lambda: agent.task_of(Path(start.directory).name).last_status == "STOPPED")


async def test_two_runners_of_one_cluster_do_not_touch_each_others_tasks(
    agent: EcsAgent, opened: OpenEcs, start: ExecutorStart
) -> None:
    agent.is_capable = False
    first, second = opened(), opened("another key")
    await first.start(start)
    await _until(lambda: agent.tasks)
    await second.place.sweep(list)
    assert await second.place.listed() == []
    assert agent.task_of(Path(start.directory).name).desired_status == "RUNNING"
    await first.place.sweep(lambda: [Path(start.directory)])
    assert agent.task_of(Path(start.directory).name).desired_status == "RUNNING"


async def test_fifty_starts_at_once_are_described_together(
    agent: EcsAgent, opened: OpenEcs, hub: FakeExecutorHub, tmp_path: Path, gate: NetworkGate
) -> None:
    agent.is_capable = False
    dispatcher = opened(start_seconds=600.0)
    starts = [_start(hub, tmp_path, gate, number) for number in range(1, 51)]
    handles = [await dispatcher.start(each) for each in starts]
    watching = [asyncio.create_task(dispatcher.watch(each)) for each in handles]
    await _until(lambda: len(agent.tasks) == 50 and agent.largest_description == 50)
    for task in agent.tasks.values():
        task.stopped_reason = "CannotPullContainerError"
        task.desired_status = task.last_status = "STOPPED"
    async with asyncio.timeout(MAX_SECONDS):
        ends = await asyncio.gather(*watching, return_exceptions=True)
    assert all(isinstance(each, NotStarted) for each in ends)


class TestWithContainers:
    pytestmark = needs_containers

    async def test_while_ecs_does_not_answer_an_attempt_goes_on(
        self, agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub, gate: NetworkGate
    ) -> None:
        dispatcher = opened(forgotten_seconds=0.0)
        watching = asyncio.create_task(dispatcher.watch(await dispatcher.start(start)))
        await gate.reached()
        agent.is_answering = False
        await _until(lambda: agent.refused_calls > 2)
        assert not watching.done()
        await gate.open()
        await hub.until(lambda: hub.has_result)
        assert not watching.done(), "nobody knows yet that it has ended"
        agent.is_answering = True
        async with asyncio.timeout(MAX_SECONDS):
            assert (await watching).code == exit_codes.DELIVERED

    async def test_a_task_is_found_by_its_tags_if_its_number_was_not_written_down(
        self, agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub, gate: NetworkGate
    ) -> None:
        first = opened()
        await first.start(start)
        await gate.reached()
        await first.close()
        (Path(start.directory) / files.CONTAINER).write_bytes(b"")
        second = opened()
        watching = asyncio.create_task(second.watch(second.adopt(Path(start.directory))))
        await gate.open()
        async with asyncio.timeout(MAX_SECONDS):
            assert (await watching).code == exit_codes.DELIVERED
        assert hub.result.status == "SUCCEEDED"

    async def test_a_task_that_ecs_has_forgotten_is_over(
        self, agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, gate: NetworkGate
    ) -> None:
        dispatcher = opened()
        handle = await dispatcher.start(start)
        await gate.open()
        await _until(lambda: agent.task_of(Path(start.directory).name).last_status == "STOPPED")
        agent.forget(Path(start.directory).name)
        async with asyncio.timeout(MAX_SECONDS):
            ended = await dispatcher.watch(handle)
        assert (ended.code, "does not know its task any more" in ended.reason) == (exit_codes.NOTHING_LEFT, True)

    async def test_a_task_definition_without_the_right_user_is_named(
        self, agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub
    ) -> None:
        agent.user = "65534:65534"
        dispatcher = opened()
        said = await _not_started(dispatcher, await dispatcher.start(start))
        assert said.startswith("the executor did not begin: ")
        assert "the container must be started as root" in agent.logs(Path(start.directory).name)
        assert not hub.hellos

    async def test_a_stolen_ticket_keeps_the_task_from_beginning(
        self, agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub
    ) -> None:
        def steal(_task: Any) -> None:
            [ticket] = hub.starts
            hub.claims[ticket] = "the claim of a thief"

        agent.before_run = steal
        dispatcher = opened()
        said = await _not_started(dispatcher, await dispatcher.start(start))
        assert "may have been stolen" in said
        assert not hub.begins
        assert not (Path(start.directory) / files.PID).exists()

    async def test_what_a_killed_task_left_is_lost_and_has_a_reason(
        self, agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, gate: NetworkGate
    ) -> None:
        dispatcher = opened()
        handle = await dispatcher.start(start)
        await gate.reached()
        os.kill(agent.first_pid(Path(start.directory).name), signal.SIGKILL)
        async with asyncio.timeout(MAX_SECONDS):
            ended = await dispatcher.watch(handle)
        assert ended.code == exit_codes.NOTHING_LEFT
        assert ended.reason == "its container ended with exit code 137: Essential container in task exited"
        salvage = msgspec.structs.replace(start, granted=None, is_salvage=True)
        assert (await dispatcher.watch(await dispatcher.start(salvage))).code == exit_codes.NOTHING_LEFT

    async def test_a_task_gets_nothing_of_the_runner_and_its_start_is_given_away_once(
        self, agent: EcsAgent, opened: OpenEcs, start: ExecutorStart, hub: FakeExecutorHub, gate: NetworkGate
    ) -> None:
        own = msgspec.structs.replace(start, environment={"AWS_SECRET_ACCESS_KEY": "of-the-runner"})
        dispatcher = opened()
        handle = await dispatcher.start(own)
        await gate.reached()
        described = str(agent.task_of(Path(start.directory).name).overrides)
        assert start.granted
        for secret in (start.granted.credentials.hub, start.granted.credentials.api, "of-the-runner"):
            assert secret not in described
        environment = Path(f"/proc/{agent.executor_pid(Path(start.directory).name)}/environ").read_bytes()
        assert b"of-the-runner" not in environment
        assert len(hub.claims) == 1
        assert not hub.starts, "the first process let the server forget the start"
        await gate.open()
        async with asyncio.timeout(MAX_SECONDS):
            assert (await dispatcher.watch(handle)).code == exit_codes.DELIVERED
