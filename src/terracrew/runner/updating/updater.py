"""Updates this runner when its server asks it to: fetch, verify, install, check, switch. The launcher starts the new version.

Whatever goes wrong before the switch, this process stays at work and says what it was. At the switch it takes no more jobs, lets
starts that are under way finish, and ends with a code that the launcher knows; its executors go on. What becomes of the new version
is in `versions/current.json`, so whichever version runs next answers the server.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from terracrew import __version__
from terracrew.errors import Invalid, TerracrewError
from terracrew.protocol.messages import ArtifactRef, Update, UpdateReport
from terracrew.releases import minisign
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Departure, Stop
from terracrew.runner.handover import Launch, SettingsSource
from terracrew.runner.updating import fetching, installing, versions, wheels
from terracrew.runner.updating.fetching import ArtifactFetcher
from terracrew.system import durable, own_program

log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""How long the switch waits for executors that are being started. A start that takes longer is continued by the new version."""
PROGRESS_SECONDS = 2.0
"""How often it is reported how much of a file was fetched. The server gives up an update of which it hears nothing for minutes."""
_POLL_SECONDS = 0.05
_SOURCE = "update"
_FETCHED = "fetched"


class UpdateConnection(Protocol):
    """The connection to the server, as far as an update needs it."""

    on_update: Callable[[Update], None] | None

    def report_update(self, report: UpdateReport) -> None: ...
    async def access_token(self) -> str: ...
    async def send_rest(self, seconds: float) -> None: ...


class Updater:
    def __init__(
        self,
        config: RunnerConfig,
        source: SettingsSource,
        connection: UpdateConnection,
        stop: Stop,
        is_starting: Callable[[], bool],
        is_idle: Callable[[], bool],
        *,
        is_on_trial: bool = False,
    ) -> None:
        """`is_starting` says whether a claim is open or an executor is being started; `is_idle`, whether there is no attempt."""
        self._config, self._source, self._connection, self._stop = config, source, connection, stop
        self._is_starting, self._is_idle = is_starting, is_idle
        self._folder = versions.folder_of(Path(config.working_directory))
        self._key = minisign.PublicKey.parse(config.release_key)
        self._asked: asyncio.Queue[Update] = asyncio.Queue()
        self._last: UpdateReport | None = None
        """How far the last update is that this process has begun."""
        self._is_settled = asyncio.Event()
        """Whether this version may be replaced: it is not on trial any more."""
        if not is_on_trial:
            self._is_settled.set()
        connection.on_update = self._take

    async def run(self) -> None:
        """Update when asked to, one update after the other."""
        await self._is_settled.wait()
        with contextlib.suppress(OSError):  # leftovers cost space, and nothing else
            await asyncio.to_thread(self._clean)
        while True:
            update = await self._asked.get()
            if update.version == __version__:  # it was asked for while this version was on trial
                self._report_same(update)
            elif self._last is None or self._last.update_id != update.update_id:
                await self._update(update)

    def confirm(self, words: str) -> bool:
        """Note that this version, which was started on trial, has proved itself. Returns False if its time was over."""
        try:
            is_confirmed = versions.confirm(self._folder, __version__, words)
        except OSError as error:  # what is not on the disk would be forgotten at the next start
            log.error("it cannot be noted that this version has proved itself: %s", error)
            return False
        if is_confirmed:
            self._is_settled.set()
        self._report_current()
        return is_confirmed

    def _take(self, update: Update) -> None:
        """Answer the server: how far this update is, or how it ended. If it is a new one, begin."""
        current = versions.read(self._folder)
        if current.update_id == update.update_id and current.status != "chosen":
            self._report_current()
        elif update.version == __version__ and current.status != "trial":
            self._report_same(update)
        elif self._last is not None and self._last.update_id == update.update_id:
            self._connection.report_update(self._last)
        else:
            self._asked.put_nowait(update)

    def _report_same(self, update: Update) -> None:
        words = "this runner has this version already"
        self._connection.report_update(UpdateReport(update.update_id, "done", words=words))

    def _report_current(self) -> None:
        current = versions.read(self._folder)
        if not current.update_id:
            return
        match current.status:
            case "confirmed":
                report = UpdateReport(current.update_id, "done", "trial", current.words)
            case "given_up":
                report = UpdateReport(current.update_id, "failed", current.step, current.words)
            case _:
                report = UpdateReport(current.update_id, "running", "trial")
        self._connection.report_update(report)

    def _report(self, update: Update, step: str, status: str = "running", words: str = "") -> None:
        self._last = UpdateReport(update.update_id, "failed" if status == "failed" else "running", step, words)
        self._connection.report_update(self._last)

    async def _update(self, update: Update) -> None:
        step = "verify"

        def begin(name: str) -> None:
            nonlocal step
            step = name
            self._report(update, name)

        log.info("updating from %s to %s", __version__, update.version)
        try:
            await self._install(update, begin)
            begin("switch")
            await self._switch(update)
        except TerracrewError as error:
            self._fail(update, step, error.message)
        except OSError as error:
            self._fail(update, step, f"{error.strerror or error}: {error.filename or self._folder}")
        except Exception as error:  # a runner must not end because of a release
            log.exception("the update to %s failed", update.version)
            self._fail(update, step, f"unexpected {type(error).__name__}: {error}")

    def _fail(self, update: Update, step: str, words: str) -> None:
        log.error("this runner stays at %s: the update to %s failed (%s): %s", __version__, update.version, step, words)
        self._stop.departures.announce(_SOURCE, None)
        self._report(update, step, "failed", words)
        with contextlib.suppress(OSError):
            self._clean()

    def _clean(self) -> None:
        """Remove what is not needed any more. While there is an attempt, every version stays: its executor may have been started from
        one that is older than the version before, and may still import something."""
        running = Path(overlay).name if (overlay := own_program.overlay()) else ""
        kept = {*versions.kept(versions.read(self._folder)), running}
        if not self._is_idle():
            kept |= versions.installed(self._folder)
        installing.remove_others(self._folder, kept)

    async def _install(self, update: Update, begin: Callable[[str], None]) -> None:
        """Fetch and verify what this machine needs of the release, unpack it beside this version, and check it."""
        wheels.require_newer(update.version, __version__)
        main = wheels.choose(update.artifacts, version=update.version)
        begin("fetch")
        folder = self._folder / _FETCHED
        durable.make_directory(folder)
        fetching.require_room(folder, [main])
        paths = [await self._fetched(update, main, folder, begin)]
        metadata = wheels.WheelMetadata(paths[0])
        if metadata.name != wheels.NAME or wheels.Version(metadata.version) != wheels.Version(update.version):
            raise Invalid(f"{main.name} contains {metadata.name} {metadata.version}")
        metadata.require_python()
        paths += await self._fetched_requirements(update, metadata, folder, begin)
        begin("install")
        overlay = await asyncio.to_thread(installing.install, self._folder, update.version, paths)
        begin("check")
        launch = Launch(
            self._config.working_directory,
            -1,
            self._source.file,
            self._source.options,
            self._source.flags,
            self._source.environment,
        )
        await asyncio.to_thread(installing.check, overlay, update.version, launch)

    async def _fetched_requirements(
        self, update: Update, metadata: wheels.WheelMetadata, folder: Path, begin: Callable[[str], None]
    ) -> list[Path]:
        """Fetch what the release needs and the environment lacks, and what that needs."""
        has = wheels.installed()
        paths: list[Path] = []
        left = wheels.missing(metadata.requirements(), has)
        while left:
            requirement = left.pop()
            if not wheels.missing([requirement], has):
                continue
            try:
                artifact = wheels.choose(update.artifacts, requirement.name)
            except Invalid as error:
                found = has.get(wheels.canonicalize_name(requirement.name))
                words = f"{found} is installed" if found else "it is not installed"
                raise Invalid(
                    f"the release needs {requirement}: {words}, and {error.message}. Update the environment of this runner by hand"
                ) from error
            fetching.require_room(folder, [artifact])
            paths.append(path := await self._fetched(update, artifact, folder, begin))
            further = wheels.WheelMetadata(path)
            has[further.name] = further.version
            if wheels.missing([requirement], has):
                raise Invalid(f"the release needs {requirement}, and has only {artifact.name}")
            further.require_python()
            left += wheels.missing(further.requirements(requirement.extras), has)
        return paths

    async def _fetched(self, update: Update, artifact: ArtifactRef, folder: Path, begin: Callable[[str], None]) -> Path:
        begin("fetch")
        loop = asyncio.get_running_loop()
        fetcher = ArtifactFetcher(
            self._config.server_url,
            lambda: asyncio.run_coroutine_threadsafe(self._connection.access_token(), loop).result(),
            folder,
        )
        try:
            fetch = asyncio.create_task(asyncio.to_thread(fetcher.fetch, update.version, artifact))
            while not (await asyncio.wait({fetch}, timeout=PROGRESS_SECONDS))[0]:
                self._report(update, "fetch", words=fetcher.progress(artifact))
            path = fetch.result()
        finally:
            fetcher.is_canceled = True  # if this task was canceled, the thread must not go on
        begin("verify")
        await asyncio.to_thread(fetching.verify, path, update.version, artifact, self._key)
        return path

    async def _switch(self, update: Update) -> None:
        """End this process, so that the new version is started. Attempts go on."""
        if self._stop.drain.is_set():
            raise Invalid("this runner is being stopped")
        departure = Departure(f"it updates itself to {update.version}", time.time(), None, "runner")
        self._stop.departures.announce(_SOURCE, departure)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                while self._is_starting():  # noqa: ASYNC110 - what starts has no event
                    await asyncio.sleep(_POLL_SECONDS)
        if self._stop.drain.is_set():
            raise Invalid("this runner is being stopped")
        running = Path(overlay).name if (overlay := own_program.overlay()) else ""
        await asyncio.to_thread(versions.choose, self._folder, update.version, running, update.update_id)
        await self._connection.send_rest(1.0)
        log.info("ending, so that %s is started; attempts continue", update.version)
        self._stop.switch()
