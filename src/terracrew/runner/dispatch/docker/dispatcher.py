"""The dispatcher `docker`: starts, finds, follows and stops the containers of attempts."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiodocker
import msgspec

from terracrew.attempt import exit_codes, files
from terracrew.errors import Invalid
from terracrew.executor.container import ends, paths
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Ending
from terracrew.runner.dispatch.containers import attempts, container_start, values
from terracrew.runner.dispatch.containers.attempts import BackgroundTasks, ContainerHandle
from terracrew.runner.dispatch.docker import attempt_files, containers, settings
from terracrew.runner.dispatch.docker.containers import ContainerOwner
from terracrew.runner.dispatch.docker.daemon import Container, Daemon
from terracrew.runner.dispatch.docker.images import Images
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.runner.dispatch.docker.spares import Spares
from terracrew.runner.dispatch.docker.volumes import Volumes
from terracrew.runner.dispatch.protocol import AttemptEnd, NotStarted, of_another

log = logging.getLogger(__name__)

_LOOK_SECONDS = 60.0
"""How long to wait for the end of a container before its state is read, because a connection can die in silence."""
_SIGNAL_AGAIN_SECONDS, _KILL_AGAIN_SECONDS = 5.0, 1.0
_ENGINES_SECONDS = 60.0
_MAX_LAST_LINES = 5
_CANCELED = "it was canceled before its container was started"
_Shown = dict[str, Any]


class _Prepared(msgspec.Struct, frozen=True):
    container: Container
    archive: bytes
    """The files that the container needs."""
    is_running: bool = False
    """Whether it is a spare container, which waits for its job already."""


class Docker:
    def __init__(
        self, chosen: DockerSettings, daemon: Daemon, environment: Mapping[str, str], owner: ContainerOwner
    ) -> None:
        """`environment` holds the variables of the runner that engines may get."""
        self._settings, self._daemon, self._owner = chosen, daemon, owner
        self._environment = dict(environment)
        self._images = Images(daemon, chosen)
        self._tasks = BackgroundTasks()
        self._engines: dict[str, list[str]] | None = chosen.engines or None
        self.place = Volumes(chosen, daemon, owner)
        self._spares = Spares(daemon, self.place, self._tasks)

    def use_instance(self, key: str) -> None:
        self._owner = self._owner.with_key(key)
        self.place = Volumes(self._settings, self._daemon, self._owner)
        self._spares = Spares(self._daemon, self.place, self._tasks)

    @property
    def ends_with(self) -> Ending | None:
        """Containers end with the machine of their daemon, which is this one if the daemon has a socket here."""
        return "machine" if self._daemon.is_local else None

    async def engines(self) -> dict[str, list[str]] | None:
        if self._engines is None:
            try:
                async with asyncio.timeout(self._settings.pull_seconds + _ENGINES_SECONDS):
                    await self._images.ensure(self._settings.image)
                    self._engines = await self._ask_for_engines()
            except (NotStarted, TimeoutError, ValueError, aiodocker.DockerError) as error:
                log.warning(
                    "the image cannot be asked for its engines, so those of this machine are announced: %s", error
                )
        return self._engines

    async def _ask_for_engines(self) -> dict[str, list[str]]:
        client = self._daemon.client
        container = await self._daemon.ask(
            lambda: client.containers.create(containers.asking_for_engines(self._settings, self._owner))
        )
        try:
            await self._daemon.ask(container.start)
            await self._daemon.ask(container.wait)
            printed = "".join(await self._daemon.ask(lambda: container.log(stdout=True)))
            return msgspec.json.decode(printed, type=dict[str, list[str]])
        finally:
            await self._daemon.find(lambda: container.delete(force=True, v=True))

    async def start(self, start: ExecutorStart) -> ContainerHandle:
        handle = ContainerHandle(Path(start.directory), start)
        handle.launching = self._tasks.start(self._launch(handle, start))
        return handle

    def adopt(self, directory: Path) -> ContainerHandle:
        return ContainerHandle(directory)

    # ---- starting

    async def _launch(self, handle: ContainerHandle, start: ExecutorStart) -> None:
        """Start the container and give it its job. A request to stop ends everything up to the start itself."""
        prepared = await self._tasks.unless_stopped(self._prepare(handle.directory, start), handle.is_stopped)
        if prepared is None:
            async with attempts.briefly():
                await self._remove(handle.directory)
            raise NotStarted(_CANCELED)
        if not prepared.is_running:
            await self._begin(prepared.container, handle.directory, is_salvage=start.is_salvage)
        await self._give(prepared, handle.directory)
        self._prepare_next(start)

    async def _prepare(self, directory: Path, start: ExecutorStart) -> _Prepared:
        """Pull the image, and make the container or take the spare one. Nothing of the attempt runs in it yet."""
        if not start.is_salvage and (directory / files.PID).exists():
            raise NotStarted("the attempt was handed back")
        chosen = settings.with_choice(self._settings, start.choice)
        notes = await self._images.ensure(chosen.image)
        given = container_start.chosen(self._environment, self._settings.environment)
        inside = container_start.inside(
            start, given, waits_for_server=not self._settings.bind_path, slots=settings.sharing(chosen, start.slots)
        )
        isolation = container_start.with_bindings(inside.isolation, self._settings.bindings)
        inside = msgspec.structs.replace(inside, isolation=isolation, notes=[*start.notes, *notes])
        archive = attempt_files.upload(inside, directory)
        if not start.is_salvage:
            spare = await self._spares.take(chosen, self._images.ids[chosen.image], directory)
            if spare is not None:
                return _Prepared(spare, archive, is_running=True)
        place = containers.name_of(directory)
        configuration = containers.configuration(chosen, self._owner, place, is_salvage=start.is_salvage)
        client, name = self._daemon.client, self._owner.name(place)
        await self._remove(directory)  # a salvage follows the executor, and a request may have been repeated
        try:
            container = await self._daemon.ask(lambda: client.containers.create(configuration, name=name))
        except aiodocker.DockerError as error:
            await self._remove(directory)
            raise NotStarted(f"the container of the executor cannot be made: {error.message}") from None
        return _Prepared(container, archive)

    async def _begin(self, container: Container, directory: Path, *, is_salvage: bool) -> None:
        # From here on a process may exist, so a runner that starts again must look for it.
        containers.write_mark(directory, container.id, containers.name_of(directory))
        try:
            await self._daemon.ask(container.start)
        except aiodocker.DockerError as error:
            shown = await self._show(directory)
            if shown is None or shown["State"]["StartedAt"].startswith("0001-"):
                await self._remove(directory)
                if not is_salvage:  # there was a process before a salvage, and what it left is still to be delivered
                    attempts.remove_mark(directory)
                raise NotStarted(f"the container of the executor cannot be started: {error.message}") from None

    async def _give(self, prepared: _Prepared, directory: Path) -> None:
        """Upload the job while the container loads its program, which takes longer. Nothing begins before the upload is complete."""
        try:
            await self._daemon.ask(lambda: prepared.container.put_archive(str(paths.ROOT), prepared.archive))
        except aiodocker.DockerError as error:
            # The answer to an upload may have been lost, and this is the answer to its repetition.
            await self._remove(directory)
            try:
                await self._conclude(directory, None)
            except NotStarted:
                raise NotStarted(f"the container of the executor cannot get its job: {error.message}") from None

    def waits_for(self, handle: ContainerHandle) -> str:
        if handle.start is None or handle.launching is None or handle.launching.done():
            return ""
        image = settings.with_choice(self._settings, handle.start.choice).image
        return self._images.progress.get(image, "")

    @property
    def has_spare(self) -> bool:
        """Whether a container waits for the next job."""
        return self._spares.is_ready

    def _prepare_next(self, start: ExecutorStart) -> None:
        """Have a container ready for a job that asks for the same as this one."""
        if not start.is_salvage:
            self._spares.prepare(settings.with_choice(self._settings, start.choice))

    # ---- following

    async def watch(self, handle: ContainerHandle) -> AttemptEnd:
        end = await attempts.wait_for_start(handle, "container", lambda: self._remove(handle.directory))
        if end is not None:
            return end
        if not containers.is_ours(handle.directory):
            raise of_another(handle.directory)
        shown = await self._ended(handle.directory)
        end = await self._conclude(handle.directory, shown)
        if handle.start is not None:
            self._prepare_next(handle.start)
        return end

    async def _ended(self, directory: Path) -> _Shown | None:
        """Return the state of the container after its end; None if it does not exist any more."""
        while True:
            shown = await self._show(directory)
            if shown is None:
                return None
            if shown["State"]["Status"] == "created":
                # The start was requested by a process that has died, and has not happened: now it cannot happen any more.
                await self._remove(directory)
                return None
            if shown["State"]["Status"] in ("exited", "dead"):
                return shown
            await self._wait(directory, _LOOK_SECONDS)

    async def _conclude(self, directory: Path, shown: _Shown | None) -> AttemptEnd:
        """Copy what the runner has to know of an attempt without processes, and say how it ended."""
        container, is_reader = self._container(directory), False
        if shown is None:
            reader = await self.place.reader(directory)
            if reader is None:
                return AttemptEnd(exit_codes.NOTHING_LEFT, "its container and its volume were removed by somebody else")
            container, is_reader = reader, True
        try:
            await attempt_files.copy_ends(self._daemon, container, directory)
            if not (directory / files.PID).exists():
                raise NotStarted(await self._why_not_begun(container, shown))
        finally:
            if is_reader:
                await self._daemon.find(lambda: container.delete(force=True))
        return how_ended(shown)

    async def _why_not_begun(self, container: Container, shown: _Shown | None) -> str:
        if shown is None:
            return "its container was removed before the executor had begun"
        lines = await self._daemon.ask(lambda: container.log(stdout=True, stderr=True, tail=_MAX_LAST_LINES))
        said = " ".join("".join(lines).split())
        code = shown["State"]["ExitCode"]
        return f"the container of the executor ended with exit code {code} before the executor had begun: {said or 'it printed nothing'}"

    # ---- stopping

    async def stop(self, handle: ContainerHandle, mode: CancelMode) -> None:
        if not await attempts.begin_stop(handle, mode):
            return
        # The executor ends its engine, and the container's first process what a dead executor left. The signal is repeated,
        # because the kernel drops it while that process is being loaded.
        kill_at = time.monotonic() + attempts.KILL_SECONDS if mode == "kill" else math.inf
        while (shown := await self._show(handle.directory)) and shown["State"]["Status"] not in ("exited", "dead"):
            is_late = time.monotonic() >= kill_at
            await self._signal(handle.directory, "SIGKILL" if is_late else "SIGTERM")
            until_kill = max(_KILL_AGAIN_SECONDS, kill_at - time.monotonic())
            await self._wait(handle.directory, min(_SIGNAL_AGAIN_SECONDS, until_kill))

    async def _wait(self, directory: Path, seconds: float) -> None:
        """Wait until the container has ended, but not longer than this."""
        container = self._container(directory)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._daemon.find(lambda: container.wait(timeout=None))

    async def _signal(self, directory: Path, name: str) -> None:
        container = self._container(directory)
        try:
            await self._daemon.find(lambda: container.kill(signal=name))
        except aiodocker.DockerError as error:
            if error.status != 409:  # it has ended
                raise

    async def close(self) -> None:
        await self._spares.close()
        await self._tasks.close()
        await self._daemon.close()

    # ----

    def _container(self, directory: Path) -> Container:
        return self._daemon.client.containers.container(self._owner.name(containers.name_of(directory)))

    async def _show(self, directory: Path) -> _Shown | None:
        return await self._daemon.find(self._container(directory).show)

    async def _remove(self, directory: Path) -> None:
        """Remove the container, and nothing of what is on its volume."""
        container = self._container(directory)
        await self._daemon.find(lambda: container.delete(force=True))


def how_ended(shown: _Shown | None) -> AttemptEnd:
    """Say how the executor of a container ended, from what the daemon says of the container."""
    if shown is None:
        return AttemptEnd(None, "its container was removed by somebody else")
    state = shown["State"]
    code: int = state["ExitCode"]
    if code == ends.UNKNOWN_EXIT_CODE:
        return AttemptEnd(None, ends.UNKNOWN_END)
    code = 128 - code if code > 128 else code
    if code == exit_codes.DELIVERED:
        return AttemptEnd(code)
    if state.get("OOMKilled"):
        memory_bytes = shown["HostConfig"].get("Memory") or 0
        limit = f" of {memory_bytes >> 20} MiB" if memory_bytes else ""
        return AttemptEnd(
            code, f"a process of its container was killed because memory ran out: the limit{limit} was reached"
        )
    if code < 0:
        return AttemptEnd(code, f"its container was ended by signal {-code}")
    return AttemptEnd(code, f"the executor ended with exit code {code}")


class DockerPlugin:
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> Docker:
        chosen = settings.parse(config.dispatcher_data)
        if config.is_for_one_job:
            chosen = msgspec.structs.replace(chosen, has_spare=False)
        try:
            daemon = Daemon(chosen.host, environment)
        except (ValueError, OSError) as error:
            raise Invalid(f"{values.VARIABLE_PREFIX}HOST: {chosen.host!r} cannot be used: {error}") from error
        own = {name: value for name, value in environment.items() if not name.startswith("TERRACREW_")}
        return Docker(chosen, daemon, own, ContainerOwner.for_runner(config))


PLUGIN = DockerPlugin()
