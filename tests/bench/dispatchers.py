"""`dispatcher_start_ms`: from a grant to the engine's first line, for each dispatcher, beside the same engine without Terracrew.

What is beside it is `tofu init` of the same module: as a process, with `docker run`, or as a Job of Kubernetes, in the same image.
Both take turns, so that they meet the same machine. Only platforms that answer already, or that TERRACREW_TEST_PLATFORMS names,
are measured.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from terracrew.attempt import directories, exit_codes
from terracrew.protocol.events import Stream
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import ExecutorStart, LogStreamSettings
from terracrew.runner import environment
from terracrew.runner.dispatch.local.dispatcher import Local
from terracrew.runner.dispatch.protocol import Dispatcher
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from terracrew.toolchains import discovery
from tests.bench.figures import median
from tests.bench.filled_server import Env
from tests.bench.real import MODULE
from tests.machine import platforms

ROUNDS = 15
_POLL_SECONDS = 0.001
_MAX_SECONDS = 120.0
_PAUSE_SECONDS = 3.0
"""How long a dispatcher has after each attempt for what it does then, so that this does not disturb the next one."""


class StartedPlace(NamedTuple):
    """A dispatcher, and what has the same line printed without it."""

    dispatcher: Dispatcher[Any]
    bare: Callable[[Path], Awaitable[float]]
    """Runs `tofu init` in this new folder, and returns the seconds until it has printed a line."""


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    try:
        for name, start in (
            ("local", _local),
            ("docker", _docker),
            ("docker_cold", _docker_cold),
            ("kubernetes", _kubernetes),
        ):
            needed = {"local": [], "kubernetes": ["docker", "kubernetes"]}.get(name, ["docker"])
            if why := platforms.why_left_out(needed):
                env.say(f"dispatcher_start_ms.{name}: not measured ({why})")
            else:
                found |= asyncio.run(_measure(env, name, start))
    finally:
        platforms.leave_all()
    return found


def _local(_: Path) -> StartedPlace:
    def command(_: Path) -> list[str]:
        return [discovery.require("tofu", []).path, "init"]

    dispatcher = Local("terracrew.executor.main:run", environment.for_zygote(os.environ, is_built_in=False))
    return StartedPlace(dispatcher, _commanded(command))


def _docker_cold(folder: Path) -> StartedPlace:
    """Every job waits for its container, as the first one and those of a burst do."""
    return _docker(folder, has_spare=False)


def _docker(folder: Path, *, has_spare: bool = True) -> StartedPlace:
    from terracrew.runner.dispatch.docker import containers
    from terracrew.runner.dispatch.docker.daemon import Daemon
    from terracrew.runner.dispatch.docker.dispatcher import Docker
    from terracrew.runner.dispatch.docker.settings import DockerSettings
    from tests.machine.platforms import executor_image

    address = platforms.need("docker")
    image = executor_image.image(address)
    settings = DockerSettings(image, host=address, is_local_image=True, network="host", has_spare=has_spare)
    dispatcher = Docker(settings, Daemon(address, {}), {}, containers.ContainerOwner.for_key("", "rnr_1", "one"))
    dispatcher.use_instance(str(folder))
    run = ["docker", "--host", address, "run", "--rm", "--network", "host", "--workdir", "/module"]

    def command(at: Path) -> list[str]:
        return [*run, "--volume", f"{at}:/module", image, "tofu", "init"]

    return StartedPlace(dispatcher, _commanded(command))


def _kubernetes(folder: Path) -> StartedPlace:
    from terracrew.kubernetes_api.api import KubernetesApi
    from terracrew.runner.dispatch.kubernetes import manifests
    from terracrew.runner.dispatch.kubernetes.dispatcher import Kubernetes
    from terracrew.runner.dispatch.kubernetes.kubeconfig import Kubeconfig
    from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
    from tests.bench.bare_job import BareJob
    from tests.machine.platforms.kubernetes import Cluster

    cluster = Cluster.of(platforms.need("kubernetes"))
    image, template = cluster.executor_image(), {"spec": {"hostNetwork": True}}
    settings = KubernetesSettings(image, image_pull_policy="Never", pod_template=template)
    api = KubernetesApi(Kubeconfig(Path(cluster.kubeconfig), "", {}), settings.namespace)
    dispatcher = Kubernetes(settings, api, {}, manifests.PodOwner.for_key("", "rnr_1", "one"))
    dispatcher.use_instance(str(folder))
    return StartedPlace(dispatcher, BareJob(api, image).run)


async def _measure(env: Env, name: str, start: Callable[[Path], StartedPlace]) -> dict[str, float]:
    folder = env.directory / f"dispatcher-{name}"
    folder.mkdir()
    place = start(folder)
    ours: list[float] = []
    bare: list[float] = []
    try:
        for number in range(ROUNDS + 1):
            await asyncio.sleep(_PAUSE_SECONDS if number else 0)
            seconds = (
                await place.bare(folder / f"bare-{number}"),
                await _ours(place, folder, number),
            )
            if number:  # the first round fills caches
                bare.append(1000 * seconds[0])
                ours.append(1000 * seconds[1])
    finally:
        await place.dispatcher.close()
    figure = f"dispatcher_start_ms.{name}"
    found = {
        figure: median(ours),
        f"{figure}.bare": median(bare),
        f"{figure}.overhead": median([mine - its for mine, its in zip(ours, bare, strict=True)]),
    }
    env.say(f"{figure}: {found[figure]:.0f}, bare {found[f'{figure}.bare']:.0f}")
    return found


async def _ours(place: StartedPlace, folder: Path, number: int) -> float:
    """Return the seconds from the grant until a hub has the engine's first line."""
    hub = FakeExecutorHub()
    await hub.start()
    try:
        attempt = _attempt(hub, folder / f"ours-{number}", number + 1)
        began = time.perf_counter()
        handle = await place.dispatcher.start(attempt)
        ending = asyncio.create_task(place.dispatcher.watch(handle))
        async with asyncio.timeout(_MAX_SECONDS):
            while not hub.log(Stream.OUTPUT) and not ending.done():
                await asyncio.sleep(_POLL_SECONDS)
            seconds = time.perf_counter() - began
            ended = await ending
        if ended.code != exit_codes.DELIVERED:
            raise RuntimeError(f"the executor ended with {ended}")
        await place.dispatcher.place.remove(Path(attempt.directory))
        return seconds
    finally:
        await hub.stop()


def _attempt(hub: FakeExecutorHub, folder: Path, number: int) -> ExecutorStart:
    folder.mkdir()
    processes = ExecutorProcesses(hub, folder)
    processes.workspaces.mkdir()
    spec = processes.spec(JobType.PLAN, module(folder / "source", main=MODULE), attempt=number)
    start = processes.start_of(spec, log_stream=LogStreamSettings())
    assert start.granted
    return msgspec.structs.replace(start, directory=str(directories.create(folder, start.granted, start.server_url)))


def _commanded(command: Callable[[Path], list[str]]) -> Callable[[Path], Awaitable[float]]:
    async def bare(folder: Path) -> float:
        return await asyncio.to_thread(_first_line, command(folder), folder)

    return bare


def _first_line(command: list[str], folder: Path) -> float:
    """Return the seconds until the engine has printed a line without Terracrew."""
    folder.mkdir()
    (folder / "main.tf").write_text(MODULE)
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().strip():
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with {process.returncode} and printed nothing")
        seconds = time.perf_counter() - began
        process.stdout.read()
    return seconds
