"""The dispatcher `docker` while no daemon answers, which needs none."""

import asyncio
from pathlib import Path

import pytest

from terracrew.attempt import directories
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.docker import containers
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.docker.dispatcher import Docker
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.runner.dispatch.protocol import NotStarted
from tests.runner.conftest import TIMEOUT_SECONDS, granted


@pytest.mark.feature("J9.escalation")
async def test_a_start_that_waits_for_the_daemon_can_be_canceled(tmp_path: Path) -> None:
    """Symptom: the canceled job stayed as it was until the daemon answered, because its container was to be removed first."""
    address = f"unix://{tmp_path}/no-daemon"
    docker = Docker(
        DockerSettings("image", host=address), Daemon(address, {}), {}, containers.ContainerOwner.for_key("", "r", "i")
    )
    directory = directories.create(tmp_path, granted(), "http://server")
    try:
        handle = await docker.start(ExecutorStart("http://server", str(directory), "", "", "", {}, granted()))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await docker.stop(handle, "interrupt")
            with pytest.raises(NotStarted, match="canceled before its container was started"):
                await docker.watch(handle)
    finally:
        await docker.close()
