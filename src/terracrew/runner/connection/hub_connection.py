"""The runner's one outbound connection to the server: opens it again whenever it ends, sends and handles messages."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from terracrew import __version__, plugins
from terracrew.backoff import Backoff
from terracrew.client import hub
from terracrew.errors import (
    Conflict,
    CredentialEnded,
    Forbidden,
    Incompatible,
    RateLimited,
    Removed,
    TerracrewError,
    Unauthenticated,
    Unavailable,
    Unreachable,
    tree,
)
from terracrew.logging import LEVELS
from terracrew.protocol import messages, version
from terracrew.protocol.messages import AttemptRef
from terracrew.runner import instance, isolation
from terracrew.runner.attempts.reports import Reports
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.config import HelperCommand, RunnerConfig
from terracrew.runner.connection.access_token import Tokens
from terracrew.runner.connection.announced_dispatchers import AnnouncedDispatchers, Announcements
from terracrew.runner.connection.heartbeat import DrainState, HeartbeatLoop
from terracrew.runner.connection.worker_token import WorkerToken
from terracrew.runner.departure import Stop
from terracrew.runner.disk import Disk

log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 15.0
_REST_POLL_SECONDS = 0.1
_REJECTIONS = (Unauthenticated, Forbidden, RateLimited)
"""A person has to correct the cause of these, and servers count them, so the runner retries them less often."""


class HubConnection:
    def __init__(
        self,
        config: RunnerConfig,
        instance_key: str,
        supervisor: AttemptSupervisor,
        slots: Slots,
        reports: Reports,
        stop: Stop,
        set_levels: Callable[[dict[str, str]], None],
    ) -> None:
        self._config, self._instance_key, self._set_levels = config, instance_key, set_levels
        self._supervisor, self._slots, self._reports, self._stop = supervisor, slots, reports, stop
        secret = WorkerToken(Path(config.working_directory), config.client_secret, rotates=config.rotates_worker_token)
        self._tokens = Tokens(config.server_url, config.client_id, secret, config.helper)
        self.queue: asyncio.Queue[messages.FromRunner] | None = None
        self._delays, self._delays_when_rejected = Backoff(), Backoff(1.0, 60.0)
        self._heartbeat: HeartbeatLoop | None = None
        self._levels: dict[str, str] = {}
        self._was_welcome = False
        self._resume = ""
        self._runner_id = config.runner_id
        self._is_drained_by_server = False
        self._retired_because = ""
        """Why the server gives this process no job any more; empty if it does."""
        self._is_on_trial = config.is_on_trial
        self._trial_report: messages.TrialReport | None = None
        self.engines: Mapping[str, str] = {}
        """The engines that were announced last, each with its default version."""
        self.welcomed = asyncio.Event()
        """Whether a server has ever answered the hello."""
        self._disk = Disk(config.working_directory, instance.warm_folder(config.working_directory))
        self._announcements = Announcements(supervisor.dispatchers.opened)
        self.on_leave_answer: Callable[[bool, str], None] = lambda _granted, _reason: None
        """Called with the answer to `ask_to_leave`."""
        self.on_update: Callable[[messages.Update], None] | None = None
        """Called when the server asks this runner to update itself; None if it does not."""
        self.on_retire: Callable[[str], None] = lambda _reason: None
        """Called when the server asks this process to end after its last job, with the reason."""
        reports.send = self._send
        supervisor.on_slot_freed = self._update_credits
        stop.departures.on_change = self.drain

    async def run(self) -> TerracrewError:
        """Stay connected. Returns the error after which connecting again is pointless."""
        try:
            return await self._run()
        finally:
            self._announcements.close()

    async def _run(self) -> TerracrewError:
        while True:
            try:
                await self.step()
            except TerracrewError as error:
                if self._is_final(error):
                    return error
                if isinstance(error, Unauthenticated):
                    self._tokens.drop()
                log.warning("not connected to %s: %s", self._config.server_url, error)
                delays = self._delays_when_rejected if isinstance(error, _REJECTIONS) else self._delays
                pause = delays.next(error)
            except Exception:
                log.exception("the connection to %s failed", self._config.server_url)
                pause = self._delays.next()
            await asyncio.sleep(pause)

    async def step(self) -> NoReturn:
        """Open one connection and use it until it ends. Always raises the reason for its end."""
        token = await self._tokens.current()
        found = await self._announcements.find(self._config.engine_paths)
        self.engines = found.engines.defaults
        connection = await hub.connect(self._config.server_url, token)
        try:
            welcome = await self._greet(connection, found)
            await self._converse(connection, welcome)
        finally:
            self._slots.disconnected()
            self.queue = None
            await connection.close()

    def use_config(self, config: RunnerConfig) -> None:
        """Exchange a new credential for the next token, and use new log levels. The connection stays."""
        before, self._config = self._config, config
        if _credentials(before) != _credentials(config):
            secret = WorkerToken(
                Path(config.working_directory), config.client_secret, rotates=config.rotates_worker_token
            )
            self._tokens.use(config.client_id, secret, config.helper)
        if before.log_level != config.log_level:
            self._set_levels(self._levels)

    def drain(self) -> None:
        """Take no more jobs because this process or its machine ends, or take some again because it stays, and tell the server now."""
        self._update_credits()
        if self._heartbeat:
            self._heartbeat.wake()

    @property
    def is_welcome(self) -> bool:
        """Whether there is a connection on which the server has answered the hello."""
        return self.queue is not None

    def end_trial(self, report: messages.TrialReport) -> None:
        """Tell the server how the no-op job ended, and claim jobs if it has passed. A new connection says it again: whether the
        report has arrived is not known."""
        self._trial_report = report
        self._report_trial()
        self._is_on_trial = not report.is_passed
        self.drain()

    async def send_rest(self, seconds: float) -> None:
        """Return when everything that is to be sent was written to a connection, or after this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (queue := self.queue) is None:  # noqa: ASYNC110 - a new connection has no event
                    await asyncio.sleep(_REST_POLL_SECONDS)
                await queue.join()

    def _report_trial(self) -> None:
        if self._trial_report is not None:
            self._send(self._trial_report)

    def report_update(self, report: messages.UpdateReport) -> None:
        """Say how far an update is. If there is no connection, the server asks again on the next one."""
        self._send(report)

    async def access_token(self) -> str:
        return await self._tokens.current()

    @property
    def is_on_trial(self) -> bool:
        """Whether this process has still to prove that it can run jobs."""
        return self._is_on_trial

    def ask_to_leave(self, idle_seconds: float) -> None:
        self._send(messages.Leave(round(idle_seconds, 1)))

    def _is_final(self, error: TerracrewError) -> bool:
        """Return whether to give up. A conflict before the first welcome means that another process uses this instance, which a
        person has to resolve; after a welcome, it is an old connection of this process."""
        return isinstance(error, CredentialEnded | Incompatible | Removed) or (
            isinstance(error, Conflict) and not self._was_welcome
        )

    async def _greet(self, connection: ClientConnection, found: AnnouncedDispatchers) -> messages.RunnerWelcome:
        drain = self._drain_state()
        hello = messages.RunnerHello(
            runner_id=self._runner_id,
            runner_path=self._config.runner_path,
            instance=self._config.instance,
            instance_key=self._instance_key,
            version=__version__,
            oldest_protocol=version.OLDEST_VERSION,
            newest_protocol=version.NEWEST_VERSION,
            capacity=self._slots.capacity,
            engines=found.engines.defaults,
            engine_versions=found.engines.versions,
            installable_engines=sorted(plugins.BUILT_IN[plugins.ENGINES]) if self._config.is_engine_installed else [],
            dispatchers=found.offers,
            attempts=self._supervisor.refs,
            is_draining=drain.is_draining,
            is_disk_full=drain.is_disk_full,
            drain_reason=drain.reason,
            ends_at=drain.ends_at,
            isolation=isolation.in_force(self._config.isolation),
            resume=self._resume,
            machine=instance.machine_digest(),
            may_leave=self._config.idle_seconds > 0,
            installation=self._config.installation,
            is_self_updating=self.on_update is not None,
            history=self._supervisor.history.points,
            is_on_trial=self._is_on_trial,
            knows_merge_results=True,
        )
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                with contextlib.suppress(
                    ConnectionClosed
                ):  # the server may have refused already, and the refusal is still to be read
                    await connection.send(messages.encode(hello), text=True)
                answer = _decode(await connection.recv())
        except (TimeoutError, ConnectionClosed) as error:
            raise Unreachable(f"the server did not answer the hello: {error!r}") from error
        match answer:
            case messages.RunnerWelcome():
                version.accept(answer.protocol, who="runner")
                return answer
            case messages.Refused(code, message):
                raise tree().get(code, Unavailable)(message)
            case _:
                raise Unavailable(f"the server answered the hello with {type(answer).__name__}")

    async def _converse(self, connection: ClientConnection, welcome: messages.RunnerWelcome) -> NoReturn:
        self._configure_log(welcome.log_level)
        log.info("connected to %s as instance %s", self._config.server_url, self._config.instance)
        for ref in welcome.unknown:
            log.warning("attempt %d of %s is no longer this runner's; it delivers and ends", ref.attempt, ref.job_id)
        self._was_welcome, self._resume = True, welcome.resume
        self._remember(welcome.history)
        self._runner_id = self._runner_id or welcome.runner_id
        self._delays.reset()
        self._delays_when_rejected.reset()
        queue = self.queue = asyncio.Queue()
        self._heartbeat = HeartbeatLoop(
            self._supervisor,
            self._updated_drain_state,
            self._send,
            welcome.heartbeat_seconds,
        )
        self._is_drained_by_server = welcome.is_draining
        self.welcomed.set()
        self._report_trial()
        self._update_credits()
        self._reports.repeat()
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(task)
                for task in (
                    self._send_queued(connection, queue),
                    self._heartbeat.run(),
                    self._renew(),
                    self._announce_again(connection),
                )
            ]
            try:
                end = await self._receive(connection)
            finally:
                for task in background:
                    task.cancel()
        raise end

    async def _receive(self, connection: ClientConnection) -> TerracrewError:
        while True:
            try:
                message = _decode(await connection.recv())
            except ConnectionClosed as error:
                return Unreachable(f"the connection was closed: {error}")
            except Unavailable as error:
                return error
            if isinstance(message, messages.Refused) and message.is_final:
                return tree().get(message.code, Unavailable)(message.message)
            self._handle(message)

    def _handle(self, message: messages.FromServerToRunner | None) -> None:
        match message:
            case messages.Granted(spec):
                self._granted(message, AttemptRef(spec.job_id, spec.attempt))
            case messages.CancelAttempt(job_id, attempt, mode):
                self._supervisor.cancel(AttemptRef(job_id, attempt), mode)
            case messages.Settled(job_id, attempt):
                self._reports.settled(AttemptRef(job_id, attempt))
            case messages.HistoryPoint(point):
                self._remember(point)
            case messages.Drain(on):
                log.info("the server says: %s", "take no new jobs" if on else "take jobs again")
                self._is_drained_by_server = on
                self._update_credits()
            case messages.LeaveAnswer(is_granted, reason):
                self.on_leave_answer(is_granted, reason)
            case messages.Update() if self.on_update is not None:
                self.on_update(message)
            case messages.Retire(reason):
                self._retired_because = reason
                self.drain()
                self.on_retire(reason)
            case messages.Update():
                log.warning("the server sent a message that this runner did not announce to read; it is ignored")
            case messages.ConfigureRunner(heartbeat_seconds, log_level):
                self._configure(heartbeat_seconds, log_level)
            case messages.Refused(code, text):
                log.warning("the server refused a request: %s (%s)", text, code)
            case messages.RunnerWelcome():
                log.warning("the server sent a second welcome, which is ignored")
            case None:
                log.warning("the server sent a message that only newer runners know; it is ignored")

    def _remember(self, point: str) -> None:
        """Remember a point of the server's history. If the disk is full, the next one is remembered instead."""
        try:
            self._supervisor.history.add([point])
        except OSError as error:
            log.warning("the server's history cannot be remembered: %s", error)

    def _granted(self, message: messages.Granted, ref: AttemptRef) -> None:
        self._drain_state()  # the disk may have become full since the credit was sent
        departure = self._stop.departures.current
        self._slots.use_credit()
        why = ""
        if departure is not None and departure.ends_at is not None:  # it may be too short for the job
            why = f"this runner ends soon: {departure.reason}"
        elif self._is_on_trial:
            why = "this runner takes no new jobs: it is on trial"
        elif not self._slots.take(ref):
            why = "every slot of this runner is taken" if self._slots.is_open else "this runner takes no new jobs"
        if not why:
            self._supervisor.take(message)
        else:
            self._send(messages.HandBack(ref.job_id, ref.attempt, why))
        self._update_credits()

    def _configure(self, heartbeat_seconds: float, log_level: dict[str, str]) -> None:
        """Apply the server's settings. The heartbeat that follows acknowledges them."""
        if self._heartbeat:
            if self._heartbeat.interval_seconds != heartbeat_seconds:
                log.info("the server says: a heartbeat every %g s", heartbeat_seconds)
            self._heartbeat.interval_seconds = heartbeat_seconds
            self._heartbeat.wake()
        self._configure_log(log_level)

    def _configure_log(self, levels: dict[str, str]) -> None:
        """Set the log levels. Levels that only a newer runner knows are ignored."""
        known = {name: level for name, level in levels.items() if level.lower() in LEVELS}
        if known != self._levels:
            log.info("the server says: log levels %s", known or "as they are set here")
            self._levels = known
            self._set_levels(known)

    def _drain_state(self) -> DrainState:
        """Determine whether this runner takes new jobs, and open or close its claims accordingly."""
        is_disk_full = not self._disk.has_room()
        departure = self._stop.departures.current
        is_leaving = self._stop.drain.is_set() or departure is not None
        is_draining = is_leaving or is_disk_full or self._slots.is_used_up
        is_draining = is_draining or self._is_on_trial or bool(self._retired_because)
        self._slots.is_open = not (self._is_drained_by_server or is_draining)
        if departure is None:
            return DrainState(
                is_draining, is_disk_full, self._retired_because or ("on trial" if self._is_on_trial else "")
            )
        survives = self._supervisor.dispatchers.survives(departure.ending)
        return DrainState(is_draining, is_disk_full, departure.reason, None if survives else departure.ends_at)

    def _updated_drain_state(self) -> DrainState:
        """Determine the same for a heartbeat, and send credits again after a pause."""
        state = self._drain_state()
        self._send_credits()
        return state

    def _update_credits(self) -> None:
        """Send credits for the slots that are free now, or withdraw what cannot be kept."""
        was_open = self._slots.is_open
        if self._drain_state().is_draining and was_open and self._heartbeat:
            self._heartbeat.wake()
        self._send_credits()

    def _send_credits(self) -> None:
        if self.queue is not None and (credits_ := self._slots.credits_to_send()) is not None:
            self._send(credits_)

    def _send(self, message: messages.FromRunner) -> None:
        """Queue a message. Without a connection it is dropped: a new connection repeats every unacknowledged report."""
        if self.queue is not None:
            self.queue.put_nowait(message)

    async def _send_queued(self, connection: ClientConnection, queue: asyncio.Queue[messages.FromRunner]) -> None:
        with contextlib.suppress(ConnectionClosed):  # `_receive` notices it, too
            while True:
                await connection.send(messages.encode(await queue.get()), text=True)
                queue.task_done()

    async def _announce_again(self, connection: ClientConnection) -> None:
        """Connect again when there is more to announce: the hello says what a runner offers. Attempts are not affected."""
        await self._announcements.changed()
        log.info("connecting again, because there are other engines to announce")
        await connection.close()

    async def _renew(self) -> None:
        delays = Backoff(1.0, 30.0)
        while True:
            await asyncio.sleep(self._tokens.seconds_left)
            try:
                self._send(messages.Renew(await self._tokens.renew()))
                log.debug("the token is renewed")
                delays.reset()
            except TerracrewError as error:
                log.warning("the token was not renewed: %s", error)
                await asyncio.sleep(delays.next())


def _credentials(config: RunnerConfig) -> tuple[str, str, HelperCommand | None]:
    return config.client_id, config.client_secret, config.helper


def _decode(frame: str | bytes) -> messages.FromServerToRunner | None:
    try:
        return messages.decode_to_runner(frame)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"the server sent a message that this runner does not understand: {error}") from error
