"""The dispatcher `ecs` keeps the contract of a dispatcher on the emulator of ECS, with real executors and the real OpenTofu.

The emulator answers the API; `ecs_agent` runs each task as a container of a real Docker daemon. What only AWS itself does is not
shown here: its rights, its networks, its images, its delays and its eventual consistency.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from terracrew.runner.dispatch.ecs import tasks
from terracrew.runner.dispatch.ecs.dispatcher import Ecs
from terracrew.runner.dispatch.ecs.settings import EcsSettings, LaunchType
from terracrew.testing.dispatcher_contract import DispatcherContract
from tests.machine import platforms
from tests.machine.network_gate import NetworkGate
from tests.machine.platforms import ecs_agent, executor_image
from tests.machine.platforms.ecs_agent import EcsAgent

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("aws", "docker"),
    pytest.mark.feature("D1.others", "D5.ecs", "D6.watched", "J9.escalation", "J9.reported", "O4.adopted"),
    pytest.mark.timeout(600),
]


class TestFargate(DispatcherContract):
    launch_type: LaunchType = "fargate"
    not_started_reason = "its image cannot be pulled: CannotPullContainerError: manifest unknown"

    @pytest.fixture(autouse=True)
    def agent(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[EcsAgent]:
        self.endpoint, docker = platforms.need("aws"), platforms.need("docker")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        has_machine = self.launch_type == "ec2"
        image = executor_image.image(docker)
        self.agent_of_test = EcsAgent(self.endpoint, docker, image, has_machine=has_machine)
        yield self.agent_of_test
        self.agent_of_test.close()

    @pytest.fixture
    async def gate(self) -> AsyncIterator[NetworkGate]:
        gate = NetworkGate()
        await gate.listen()
        yield gate
        await gate.close()

    def opened(self, folder: Path, key: str = "") -> Ecs:
        agent = self.agent_of_test
        chosen = EcsSettings(
            ecs_agent.FAMILY,
            ecs_agent.REGION,
            agent.cluster,
            self.launch_type,
            subnets=[agent.subnet] if self.launch_type == "fargate" else [],
            security_groups=[agent.security_group] if self.launch_type == "fargate" else [],
            endpoint_url=self.endpoint,
        )
        dispatcher = Ecs(chosen, tasks.TaskOwner.for_key("", "rnr_1", "one"), poll_seconds=0.2)
        dispatcher.use_instance(key or str(folder))
        return dispatcher

    def opened_without_image(self, folder: Path) -> Ecs:
        self.agent_of_test.before_run = _fail_to_pull
        return self.opened(folder)

    @asynccontextmanager
    async def away(self, dispatcher: Any) -> AsyncGenerator[None]:
        self.agent_of_test.is_answering = False
        yield
        self.agent_of_test.is_answering = True

    def executor_pid(self, directory: Path) -> int:
        return self.agent_of_test.executor_pid(directory.name)

    def remains(self, directory: Path) -> bool:
        return self.agent_of_test.is_running(directory.name)


class TestMachineOfEc2(TestFargate):
    """Tasks without a network of their own, on a machine of the cluster that has room for some of them."""

    launch_type: LaunchType = "ec2"
    starts_at_once = 4
    away_seconds = 3.0


def _fail_to_pull(task: Any) -> None:
    task.stop_code, task.stopped_reason = "TaskFailedToStart", "CannotPullContainerError: manifest unknown"
    task.desired_status = task.last_status = "STOPPED"
