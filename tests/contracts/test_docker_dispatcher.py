"""The dispatcher `docker` keeps the contract of a dispatcher, with a real daemon, real executors and the real OpenTofu."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.attempt import directories, files
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.docker import containers, spares
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.docker.dispatcher import Docker
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.testing.dispatcher_contract import DispatcherContract
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
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
    has_spare = False

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
        settings = DockerSettings(
            self.image, host=self.address, is_local_image=True, network="host", has_spare=self.has_spare
        )
        dispatcher = Docker(settings, Daemon(self.address, {}), {}, containers.owner("", "rnr_1", "one"))
        dispatcher.use_instance(str(folder))
        return dispatcher

    def kill_executor(self, directory: Path) -> None:
        os.kill(self.containers.executor_pid(containers.name_of(directory)), signal.SIGKILL)

    def remains(self, directory: Path) -> bool:
        return self.containers.is_running(containers.name_of(directory))


class TestSpareContainer(TestDocker):
    """The attempt of each test gets a container that was started ahead of it."""

    has_spare = True

    @pytest.fixture
    async def dispatcher(
        self, start: ExecutorStart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Docker]:
        monkeypatch.setattr(spares, "PAUSE_SECONDS", 0.0)
        dispatcher = self.opened(tmp_path)
        folder = tmp_path / "earlier"
        folder.mkdir()
        hub = FakeExecutorHub()
        await hub.start()
        processes = ExecutorProcesses(hub, folder)
        earlier = processes.start_of(processes.spec(JobType.PLAN, module(folder / "source")))
        assert earlier.granted
        directory = directories.create(folder, earlier.granted, earlier.server_url)
        handle = await dispatcher.start(msgspec.structs.replace(earlier, directory=str(directory)))
        await dispatcher.watch(handle)
        await dispatcher.place.remove(directory)
        await hub.stop()
        async with asyncio.timeout(60):
            while not dispatcher.has_spare:
                await asyncio.sleep(0.05)
        yield dispatcher
        await dispatcher.close()
        has_mark = (Path(start.directory) / files.CONTAINER).exists()
        assert not has_mark or containers.name_of(Path(start.directory)).startswith(containers.SPARE_PREFIX)
