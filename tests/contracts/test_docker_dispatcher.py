"""The dispatcher `docker` keeps the contract of a dispatcher, with a real daemon, real executors and the real OpenTofu."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.runner.dispatch.docker import containers
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.docker.dispatcher import Docker
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.testing.dispatcher_contract import DispatcherContract
from tests.machine import platforms
from tests.machine.network_gate import NetworkGate
from tests.machine.platforms import executor_image
from tests.machine.platforms.containers import Containers

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("docker"),
    pytest.mark.feature("D1.docker", "D6.watched", "J9.escalation", "J9.reported", "O4.adopted"),
    pytest.mark.timeout(600),
]


class TestDocker(DispatcherContract):
    @pytest.fixture(autouse=True)
    def daemon(self, tmp_path: Path) -> Any:
        self.address = platforms.need("docker")
        self.image = executor_image.image(self.address)
        self.containers = Containers(self.address, containers.owner(str(tmp_path), "rnr_1", "one"))
        yield
        self.containers.remove_all()

    @pytest.fixture
    async def gate(self) -> AsyncIterator[NetworkGate]:
        gate = NetworkGate()
        await gate.listen()
        yield gate
        await gate.close()

    def opened(self, folder: Path) -> Docker:
        settings = DockerSettings(self.image, host=self.address, is_local_image=True, network="host")
        dispatcher = Docker(settings, Daemon(self.address, {}), {}, containers.owner("", "rnr_1", "one"))
        dispatcher.use_instance(str(folder))
        return dispatcher

    def kill_executor(self, directory: Path) -> None:
        os.kill(self.containers.executor_pid(directory.name), signal.SIGKILL)

    def remains(self, directory: Path) -> bool:
        return self.containers.is_running(directory.name)
