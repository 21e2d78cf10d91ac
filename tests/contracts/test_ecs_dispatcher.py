"""The dispatcher `ecs` keeps the contract of a dispatcher on the emulator of ECS, with real executors and the real OpenTofu.

The emulator answers the API; `ecs_agent` runs each task as a container of a real Docker daemon. What only AWS itself does is not
shown here: its rights, its networks, its images, its delays and its eventual consistency.
"""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from terracrew.runner.dispatch.ecs import tasks
from terracrew.runner.dispatch.ecs.dispatcher import Ecs
from terracrew.runner.dispatch.ecs.settings import EcsSettings
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


class TestEcs(DispatcherContract):
    @pytest.fixture(autouse=True)
    def agent(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[EcsAgent]:
        self.endpoint, docker = platforms.need("aws"), platforms.need("docker")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        self.agent_of_test = EcsAgent(self.endpoint, docker, executor_image.image(docker))
        yield self.agent_of_test
        self.agent_of_test.close()

    @pytest.fixture
    async def gate(self) -> AsyncIterator[NetworkGate]:
        gate = NetworkGate()
        await gate.listen()
        yield gate
        await gate.close()

    def opened(self, folder: Path) -> Ecs:
        agent = self.agent_of_test
        chosen = EcsSettings(
            ecs_agent.FAMILY,
            ecs_agent.REGION,
            agent.cluster,
            "fargate",
            subnets=[agent.subnet],
            security_groups=[agent.security_group],
            endpoint_url=self.endpoint,
        )
        dispatcher = Ecs(chosen, tasks.owner("", "rnr_1", "one"), poll_seconds=0.2)
        dispatcher.use_instance(str(folder))
        return dispatcher

    def kill_executor(self, directory: Path) -> None:
        os.kill(self.agent_of_test.executor_pid(directory.name), signal.SIGKILL)

    def remains(self, directory: Path) -> bool:
        return self.agent_of_test.is_running(directory.name)
