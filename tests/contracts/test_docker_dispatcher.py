"""The dispatcher `docker` keeps the contract of a dispatcher, with a real daemon, real executors and the real OpenTofu."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
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
from tests.machine.platforms.cut_socket import CutSocket

pytestmark = [
    pytest.mark.engine,
    pytest.mark.platform("docker"),
    pytest.mark.feature("D1.docker", "D6.watched", "J9.escalation", "J9.reported", "O4.adopted"),
    pytest.mark.timeout(600),
]


class TestDocker(DispatcherContract):
    has_spare = False
    not_started_reason = "terracrew-test/missing:1"

    @pytest.fixture(autouse=True)
    async def daemon(self, tmp_path: Path) -> AsyncIterator[None]:
        address = platforms.need("docker")
        self.image = executor_image.image(address)
        self.containers = Containers(address, containers.ContainerOwner.for_key(str(tmp_path), "rnr_1", "one"))
        self.socket = CutSocket(address, tmp_path / "docker.sock")
        await self.socket.open()
        yield
        await self.socket.cut()
        self.containers.remove_all()

    @pytest.fixture
    async def gate(self) -> AsyncIterator[NetworkGate]:
        gate = NetworkGate()
        await gate.listen()
        yield gate
        await gate.close()

    def opened(self, folder: Path, key: str = "", image: str = "") -> Docker:
        host = self.socket.address
        settings = DockerSettings(
            image or self.image, host=host, is_local_image=True, network="host", has_spare=self.has_spare
        )
        dispatcher = Docker(settings, Daemon(host, {}), {}, containers.ContainerOwner.for_key("", "rnr_1", "one"))
        dispatcher.use_instance(key or str(folder))
        return dispatcher

    def opened_without_image(self, folder: Path) -> Docker:
        return self.opened(folder, image="terracrew-test/missing:1")

    @asynccontextmanager
    async def away(self, dispatcher: Any) -> AsyncGenerator[None]:
        await self.socket.cut()
        yield
        await self.socket.open()

    def executor_pid(self, directory: Path) -> int:
        return self.containers.executor_pid(containers.name_of(directory))

    def remains(self, directory: Path) -> bool:
        is_marked = (directory / files.CONTAINER).exists()
        return is_marked and self.containers.is_running(containers.name_of(directory))

    def is_kept(self, directory: Path) -> bool:
        return bool(self.containers.names())


class TestSpareContainer(TestDocker):
    """The attempt of each test gets a container that was started ahead of it."""

    has_spare = True
    starts_at_once = 4
    away_seconds = 3.0

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
