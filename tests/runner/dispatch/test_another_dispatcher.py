"""A runner that is started with another dispatcher than before, while attempts of the first one run."""

import asyncio
import os
from pathlib import Path

import pytest

from terracrew.attempt import delivered, directories, exit_codes, files, ownership, process_record
from terracrew.errors import Conflict
from terracrew.runner.dispatch.docker import containers
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.docker.dispatcher import Docker
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.runner.dispatch.local.dispatcher import Local
from tests.runner.conftest import ROOT, SOURCES, TIMEOUT_SECONDS, granted


@pytest.mark.feature("O4.adopted")
async def test_a_process_of_this_machine_is_not_handed_back_by_the_dispatcher_docker(tmp_path: Path) -> None:
    """Symptom: its attempt was handed back, and the directory of a living executor removed with everything in it."""
    directory = directories.create(tmp_path, granted(), "http://server")
    assert ownership.sign(directory, process_record.of(os.getpid()))
    address = f"unix://{tmp_path}/no-daemon"
    docker = Docker(
        DockerSettings("image", host=address), Daemon(address, {}), {}, containers.ContainerOwner.for_key("", "r", "i")
    )
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with pytest.raises(Conflict, match="another dispatcher"):
                await docker.watch(docker.adopt(directory))
            delivered.mark_done(directory, 7)
            assert (await docker.watch(docker.adopt(directory))).code == exit_codes.NOTHING_LEFT
    finally:
        await docker.close()


@pytest.mark.feature("O4.adopted")
async def test_a_task_or_pod_is_not_taken_for_a_container_that_is_gone(tmp_path: Path) -> None:
    """Symptom: the daemon did not know it, so its attempt was reported as gone while it applied."""
    directory = directories.create(tmp_path, granted(), "http://server")
    (directory / files.CONTAINER).write_text('{"job_uid": "a", "pod_uid": "b"}')
    address = f"unix://{tmp_path}/no-daemon"
    docker = Docker(
        DockerSettings("image", host=address), Daemon(address, {}), {}, containers.ContainerOwner.for_key("", "r", "i")
    )
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with pytest.raises(Conflict, match="another dispatcher"):
                await docker.watch(docker.adopt(directory))
    finally:
        await docker.close()


@pytest.mark.feature("O4.adopted")
async def test_a_container_is_not_handed_back_by_the_dispatcher_local(tmp_path: Path) -> None:
    """Symptom: its attempt was handed back, and nobody delivered what the container left."""
    directory = directories.create(tmp_path, granted(), "http://server")
    (directory / files.CONTAINER).write_text("0123456789ab")
    local = Local("tests.runner.scripted_executor_process:run", {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"})
    try:
        with pytest.raises(Conflict, match="another dispatcher"):
            local.adopt(directory)
        assert not (directory / files.PID).exists()
    finally:
        await local.close()
