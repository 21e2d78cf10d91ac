"""The job of a container, which the dispatcher `docker` uploads after the container was started."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from terracrew.attempt import files
from terracrew.protocol.events import Stream
from terracrew.runner.dispatch.docker import containers
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.system import durable
from tests.machine import platforms
from tests.machine.platforms.cut_socket import CutSocket
from tests.runner.dispatch.docker.bench import Bench

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker"), pytest.mark.timeout(600)]

END_SECONDS = 300.0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Bench(platforms.need("docker"), tmp_path) as opened:
        yield opened


@pytest.mark.feature("D3.docker", "O4.adopted")
async def test_an_attempt_whose_runner_died_before_the_upload_has_not_begun(bench: Bench) -> None:
    start, dispatcher, owner = bench.start(), bench.open(), bench.containers.owner
    directory, daemon = Path(start.directory), Daemon(bench.address, {})
    try:
        configuration = containers.configuration(bench.settings, owner, directory.name)
        container = await daemon.client.containers.create(configuration, name=owner.name(directory.name))
        durable.write(directory / files.CONTAINER, container.id.encode())
        await container.start()
    finally:
        await daemon.close()
    handle = dispatcher.adopt(directory)
    async with asyncio.timeout(END_SECONDS):
        await dispatcher.stop(handle, "interrupt")
        with pytest.raises(NotStarted, match="told to end before its job arrived"):
            await dispatcher.watch(handle)
    assert not bench.hub.log(Stream.OUTPUT)


@pytest.mark.feature("D3.docker")
async def test_an_upload_that_the_daemon_refuses_leaves_nothing_that_waits_for_it(bench: Bench) -> None:
    socket = CutSocket(bench.address, bench.folder / "socket")
    socket.refused_method = b"PUT "
    await socket.open()
    dispatcher, start = bench.open(host=socket.address), bench.start()
    async with asyncio.timeout(END_SECONDS):
        with pytest.raises(NotStarted, match="cannot get its job: no space left on device"):
            await dispatcher.watch(await dispatcher.start(start))
    assert not bench.containers.is_running(Path(start.directory).name)
    await dispatcher.place.remove(Path(start.directory))
    assert bench.containers.names() == []
    await dispatcher.close()
    await socket.cut()
