"""Supervises the attempts of this runner, from the grant to the removal of the attempt's directory.

An attempt may have been started by an earlier runner process: everything that a new process needs is in its directory.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt import (
    delivered,
    directories,
    downloads,
    exit_codes,
    files,
    last_outputs,
    ownership,
    process_record,
    record,
    remembered_points,
)
from terracrew.attempt.downloads import MissingDownloads
from terracrew.attempt.process_record import ProcessRecord
from terracrew.attempt.remembered_points import RememberedPoints
from terracrew.backoff import Backoff
from terracrew.errors import Conflict, Invalid
from terracrew.protocol.messages import AttemptRef, CancelMode, Gone, Granted, HandBack, WaitingStart
from terracrew.runner import departure as departures
from terracrew.runner import engine_users, isolation
from terracrew.runner.attempts import job_events
from terracrew.runner.attempts.executor_starts import ExecutorStarts, StartedExecutors, StartFailures
from terracrew.runner.attempts.reports import Reports
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.attempts.workspaces import EngineDirectories, TempDirectories, Workspaces
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Departure
from terracrew.runner.disk import DownloadCache
from terracrew.runner.dispatch.dispatchers import Dispatchers, OpenedDispatcher
from terracrew.runner.dispatch.protocol import AttemptEnd, NotStarted
from terracrew.runner.engine_users import EngineUsers
from terracrew.runner.instance import LocalInstance
from terracrew.system import durable, trees

log = logging.getLogger(__name__)

_NOTHING_LEFT_REASON = "the executor is gone, and what it left cannot be reached"
_SWEEP_SECONDS = 600.0
"""How often leftovers of earlier attempts are looked for, where the dispatcher could not remove them before."""


class AttemptSupervisor:
    def __init__(
        self,
        config: RunnerConfig,
        instance: LocalInstance,
        dispatchers: Dispatchers,
        slots: Slots,
        reports: Reports,
        environment: Mapping[str, str],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._config, self._instance, self._dispatchers = config, instance, dispatchers
        self._slots, self._reports = slots, reports
        self._temp_directories = TempDirectories(config.temp_directory, str(instance.attempts))
        self._workspaces = Workspaces(instance.workspaces)
        self._engine_directories = EngineDirectories(instance.engine_directories)
        self._starts = ExecutorStarts(config, instance, self._engine_directories, environment)
        self._users = EngineUsers(config.engine_accounts)
        self._download_cache = DownloadCache(
            instance.cache, environment, config.engine_paths, lambda: self._users.open_plugins(instance.cache)
        )
        self._tasks = tasks
        self._tasks_by_attempt: dict[AttemptRef, asyncio.Task[None]] = {}
        self._handles: dict[AttemptRef, Any] = {}
        self._executors = StartedExecutors()
        self._start_failures = StartFailures()
        self._early_cancels: dict[AttemptRef, CancelMode] = {}
        """Requests to end attempts that have no handle yet."""
        self._causes: dict[AttemptRef, str] = {}
        """Why attempts were interrupted, for those that would not have survived the end of this runner."""
        self._starting: set[AttemptRef] = set()
        """Attempts whose executor is being started."""
        self._failing: set[AttemptRef] = set()
        """Attempts whose supervision failed with an exception and is about to be repeated."""
        self._background_tasks: set[asyncio.Task[None]] = set()
        self.on_slot_freed: Callable[[], None] = lambda: None
        """Called when a slot is free again, and when an attempt is settled."""
        self.on_taken: Callable[[AttemptRef, str], None] = lambda _ref, _credential: None
        """Called for each attempt that was granted or found, with its hub credential; empty if that cannot be read."""

    def prepare_users(self) -> bool:
        """Let the users of engines enter their directories, and return whether engines have users.

        Raises Invalid if the settings name users and this cannot work."""
        instance, config = self._instance, self._config
        shared, temp = (instance.workspaces, instance.engine_directories), self._temp_directories.root
        view = isolation.has_view(config.isolation)
        try:
            self._users.prepare(instance.root, shared, instance.cache, config.engine_paths, temp, has_view=view)
        except Invalid as error:
            if not config.claims_engine_users:
                raise
            log.warning("engines run as root, because they cannot run as other users here. %s", error)
            self._users.turn_off()
        return self._users.is_on

    def use_config(self, config: RunnerConfig) -> None:
        """Start the executors of later attempts with new settings."""
        self._config = config
        self._starts.use_config(config)

    @property
    def refs(self) -> list[AttemptRef]:
        """Every attempt that is not settled. The server keeps an attempt as long as it is named here.

        An attempt whose supervision fails is left out, so that the server treats it as lost.
        """
        return sorted(self._tasks_by_attempt.keys() - self._failing)

    @property
    def is_idle(self) -> bool:
        """Whether there is no attempt, not even one whose supervision fails."""
        return not self._tasks_by_attempt

    @property
    def is_starting(self) -> bool:
        """Whether an executor is being started now."""
        return bool(self._starting)

    @property
    def history(self) -> RememberedPoints:
        """The points of the server's history that this runner was told."""
        return self._instance.history

    @property
    def dispatchers(self) -> Dispatchers:
        return self._dispatchers

    @property
    def default_dispatcher(self) -> str:
        """The type of the dispatcher that a job gets which asks for none."""
        return self._dispatchers.opened[0].type

    @property
    def starting(self) -> list[WaitingStart]:
        """The attempts that have no process yet, with what their starts wait for, and those whose executor may not have connected."""
        waiting = {ref: self.dispatchers.waits_for(handle) for ref, handle in self._handles.items()}
        return self._executors.starts(waiting, time.monotonic())

    def recover(self) -> None:
        """Take over what an earlier process left in the working directory, and start filling the shared cache of downloads."""
        for loop in (self._download_cache.run(), self._sweep()):
            self._background_tasks.add(self._tasks.create_task(loop))  # `stop_watching` cancels them with the others
        # What an earlier process kept cannot be used any more: the secret that it was signed with is gone.
        trees.remove_if_possible(self._instance.warm_workspaces)
        if self._config.warm_bytes:
            log.info(
                "what init makes is kept for %.0f hours, up to %d MB, in %s",
                self._config.warm_seconds / 3600,
                self._config.warm_bytes >> 20,
                self._instance.warm_workspaces,
            )
        for ref, directory in directories.scan(self._instance.trials).items():
            self._background_tasks.add(self._tasks.create_task(self._end_leftover(ref, directory)))
        found = directories.scan(self._instance.attempts)
        self._temp_directories.sweep(found)
        self._workspaces.sweep(found)
        self._engine_directories.sweep(found)
        for ref, directory in found.items():
            self._workspaces.relink(directory)
            self._users.adopt(directory)
            log.info("found attempt %d of %s of an earlier runner process", ref.attempt, ref.job_id)
            self._slots.adopted(ref)
            known = record.find(directory)
            self.on_taken(ref, known.hub if known else "")
            if known:
                self._executors.connect_to(ref, known.server_url)
            self._start_task(ref, None)

    def take(self, granted: Granted) -> None:
        """Write a grant to disk, then start its executor."""
        ref = AttemptRef(granted.spec.job_id, granted.spec.attempt)
        if ref in self._tasks_by_attempt:
            log.error("attempt %d of %s was granted twice; the second grant is ignored", ref.attempt, ref.job_id)
            return
        if not directories.is_job_id(ref.job_id):  # it becomes part of a path, so it is not taken on trust
            log.error("%r was granted, which is not the id of a job", ref.job_id)
            self._free_slot(ref)
            return
        job_events.picked_up(granted)
        self.on_taken(ref, granted.credentials.hub)
        self._start_task(ref, granted)

    def cancel(self, ref: AttemptRef, mode: CancelMode) -> None:
        if (handle := self._handles.get(ref)) is None:
            if ref in self._tasks_by_attempt:
                self._early_cancels[ref] = mode
        else:
            log.info(
                "ending attempt %d of %s (%s): the server cannot reach its executor", ref.attempt, ref.job_id, mode
            )
            self._request_stop(ref, handle, mode)

    def interrupt_all(self, departure: Departure) -> None:
        """Interrupt the attempts that would not survive this end, each once. Their jobs are not canceled: the server decides about
        them as about every lost attempt. One that is only started yet is interrupted by a later call."""
        for ref, handle in list(self._handles.items()):
            if ref in self._causes or self._dispatchers.survives(departure.ending, handle):
                continue
            self._causes[ref] = reason = departures.cause(departure)
            log.warning("interrupting attempt %d of %s: %s", ref.attempt, ref.job_id, reason)
            self._request_stop(ref, handle, "interrupt")

    def _request_stop(self, ref: AttemptRef, handle: Any, mode: CancelMode) -> None:
        ending = self._tasks.create_task(self._stop(ref, handle, mode))
        self._background_tasks.add(ending)
        ending.add_done_callback(self._background_tasks.discard)

    def stop_watching(self) -> None:
        """Cancel the tasks of this supervisor. The executors continue, and the next runner process finds them."""
        for task in (*self._tasks_by_attempt.values(), *self._background_tasks):
            task.cancel()

    async def _stop(self, ref: AttemptRef, handle: Any, mode: CancelMode) -> None:
        delays = Backoff(1.0, 60.0)
        while self._handles.get(ref) is handle:
            try:
                await self._dispatchers.stop(handle, mode)
                break
            except Exception:  # it concerns one attempt, and must not end the runner
                log.exception("attempt %d of %s could not be stopped; trying again", ref.attempt, ref.job_id)
            await asyncio.sleep(delays.next())

    async def _sweep(self) -> None:
        while True:
            try:
                await self._dispatchers.place.sweep(
                    lambda: [directories.path_of(self._instance.attempts, ref) for ref in self._tasks_by_attempt]
                )
            except Exception:  # leftovers cost space, and nothing else
                log.exception("leftovers of earlier attempts could not be removed; trying again")
            await asyncio.sleep(_SWEEP_SECONDS)

    def _start_task(self, ref: AttemptRef, granted: Granted | None) -> None:
        self._tasks_by_attempt[ref] = self._tasks.create_task(self._supervise(ref, granted))

    async def _supervise(self, ref: AttemptRef, granted: Granted | None) -> None:
        delays = Backoff(1.0, 60.0)
        while True:
            try:
                await self._follow(ref, granted)
                break
            except Exception as error:
                log.exception("attempt %d of %s could not be followed; trying again", ref.attempt, ref.job_id)
                if isinstance(
                    error, Conflict
                ):  # another dispatcher started it, and it needs no slot of those that are here
                    self._free_slot(ref)
            self._failing.add(ref)
            granted = None  # from here on, the directory says what happened to the attempt
            await asyncio.sleep(delays.next())
        del self._tasks_by_attempt[ref]
        self._users.release(directories.directory_name(ref))
        self._early_cancels.pop(ref, None)
        self._executors.forget(ref)
        self._causes.pop(ref, None)
        self._failing.discard(ref)
        self._free_slot(ref)

    async def _follow(self, ref: AttemptRef, granted: Granted | None) -> None:
        directory, since = directories.path_of(self._instance.attempts, ref), time.monotonic()
        try:
            handle = await self._start(ref, granted) if granted else self._dispatchers.adopt(directory)
            ended = await self._watch(ref, handle)
            if (why := self._causes.get(ref)) is not None:
                ended = msgspec.structs.replace(ended, reason=f"{ended.reason}: {why}" if ended.reason else why)
            job_events.ended(ref, granted, ended, time.monotonic() - since)
            if ended.code == exit_codes.NOT_DURABLE:
                raise NotStarted(f"{directory} cannot be synced to the disk, so its executor has not begun")
        except NotStarted as error:
            return await self._hand_back(ref, directory, error.message, granted)
        if granted:
            self._start_failures.started(ref.job_id, granted.spec.choice)
        self._free_slot(ref)
        if ended.code == exit_codes.NOTHING_LEFT:
            if not delivered.is_done(directory):  # otherwise an earlier process has reported it, and begun to remove it
                await self._report_gone(ref, directory, ended.reason or _NOTHING_LEFT_REASON, is_delivered=False)
            return await self._remove(ref, directory)
        process = ownership.process_of(directory)
        if process is None:
            return await self._hand_back(ref, directory, "the executor ended before it had begun")
        # A salvage delivers but does not report, so an attempt that ends with one is still to be reported.
        needs_report = process.is_salvage or not delivered.is_done(directory)
        if needs_report and not await self._salvage_and_report(ref, directory, describe_end(ended, process)):
            return await self._quarantine_directory(ref, directory)
        if (
            not needs_report and ended.reason
        ):  # the server has the result, but not what only the dispatcher knows of its cause
            await self._report_gone(ref, directory, ended.reason, is_delivered=True)
        return await self._remove(ref, directory)

    async def _watch(self, ref: AttemptRef, handle: Any) -> AttemptEnd:
        self._handles[ref] = handle
        self._failing.discard(ref)
        if (mode := self._early_cancels.pop(ref, None)) is not None:
            self.cancel(ref, mode)
        try:
            return await self._dispatchers.watch(handle)
        finally:
            del self._handles[ref]

    async def _start(self, ref: AttemptRef, granted: Granted) -> Any:
        self._starting.add(ref)
        try:
            return await self._start_granted(ref, granted)
        finally:
            self._starting.discard(ref)

    async def _start_granted(self, ref: AttemptRef, granted: Granted) -> Any:
        opened = self._dispatchers.chosen(granted.spec.choice)
        server_url = opened.executor_server_url or self._config.url_for_executors
        self._executors.connect_to(ref, server_url)
        handle = await self._start_executor(ref, granted, self._instance.attempts, opened, server_url)
        job_events.started(granted, opened.type)
        return handle

    async def _start_executor(
        self, ref: AttemptRef, granted: Granted, root: Path, opened: OpenedDispatcher, server_url: str
    ) -> Any:
        is_local = opened.type == engine_users.DISPATCHER
        try:
            # An executor on this disk makes the directory durable itself, before anything else.
            create = directories.make if is_local else directories.create
            directory = await asyncio.to_thread(create, root, granted, server_url)
            temp_directory = self._temp_directories.make(ref)
            account = await self._users.take(directory) if is_local else None
            if account is not None:
                engine_users.give(temp_directory["TMPDIR"], account)
        except TimeoutError as error:
            raise NotStarted("every user of executor.user belongs to another attempt of this runner") from error
        except OSError as error:
            raise NotStarted(f"the grant cannot be written to {root}: {error}") from error
        return await self._dispatchers.start(
            self._starts.for_grant(directory, granted, temp_directory, server_url, account)
        )

    async def run_unknown(self, granted: Granted, server_url: str, max_seconds: float) -> AttemptEnd:
        """Run an attempt that the server of this runner does not know, and remove what is left of it. Raises TimeoutError after it
        was killed, and NotStarted."""
        ref = AttemptRef(granted.spec.job_id, granted.spec.attempt)
        directory, handle = directories.path_of(self._instance.trials, ref), None
        try:
            async with asyncio.timeout(max_seconds):
                opened = self._dispatchers.chosen(granted.spec.choice)
                handle = await self._start_executor(ref, granted, self._instance.trials, opened, server_url)
                return await self._dispatchers.watch(handle)
        finally:
            await self._end_unknown(ref, directory, handle)

    async def _end_unknown(self, ref: AttemptRef, directory: Path, handle: Any) -> None:
        if handle is not None:
            await self._dispatchers.stop(handle, "kill")
        (directory / files.LAST_OUTPUTS).unlink(missing_ok=True)
        await self._remove(ref, directory)
        self._users.release(directory.name)

    async def _end_leftover(self, ref: AttemptRef, directory: Path) -> None:
        """End an attempt of `run_unknown` that an earlier process left: nobody takes what it delivers any more."""
        try:
            await self._end_unknown(ref, directory, self._dispatchers.adopt(directory))
        except NotStarted:
            await self._end_unknown(ref, directory, None)

    async def _hand_back(self, ref: AttemptRef, directory: Path, reason: str, granted: Granted | None = None) -> None:
        """Return a job that has no process to the server. If this process was granted it, the server is told to let it wait."""
        self._free_slot(ref)
        if not delivered.is_done(directory):
            log.warning("handing back attempt %d of %s: %s", ref.attempt, ref.job_id, reason)
            report = HandBack(ref.job_id, ref.attempt, reason)
            if granted:
                choice = granted.spec.choice
                for_job, for_choice = self._start_failures.failed(ref.job_id, choice)
                report = HandBack(ref.job_id, ref.attempt, reason, for_job, choice, for_choice)
            await self._reports.deliver(report)
        await self._remove(ref, directory)

    async def _salvage_and_report(self, ref: AttemptRef, directory: Path, reason: str) -> bool:
        """Deliver what is left of an attempt whose processes have all ended, then report that the attempt is gone.

        Returns False if the server does not accept what is left.
        """
        code = exit_codes.DELIVERED
        if not delivered.is_done(directory):
            log.warning("attempt %d of %s: %s; delivering what it left", ref.attempt, ref.job_id, reason)
            if last_log_line := delivered.last_log_line(directory):
                log.warning("the last line of its own log: %s", last_log_line)
            code = await self._salvage(ref, directory)
        await self._report_gone(ref, directory, reason, is_delivered=code == exit_codes.DELIVERED)
        return code != exit_codes.UNDELIVERED

    async def _report_gone(self, ref: AttemptRef, directory: Path, reason: str, *, is_delivered: bool) -> None:
        last = delivered.last_event(directory)
        await self._reports.deliver(
            Gone(ref.job_id, ref.attempt, saw_process=True, reason=reason, last=last, is_delivered=is_delivered)
        )

    async def _salvage(self, ref: AttemptRef, directory: Path) -> int:
        """Return the exit code of the delivery: `DELIVERED`, `UNDELIVERED` or `NOTHING_LEFT`."""
        found = record.find(directory)
        if found is None:  # without its credential nothing can be delivered
            log.error("%s of attempt %d of %s cannot be read", files.RECORD, ref.attempt, ref.job_id)
            return exit_codes.UNDELIVERED
        delays = Backoff(1.0, 60.0)
        while True:
            try:
                handle = await self._dispatchers.start(self._starts.for_salvage(directory, found.server_url))
                code = (await self._dispatchers.watch(handle)).code
            except NotStarted as error:
                log.warning("the delivery from %s could not be started: %s; trying again", directory, error.message)
            else:
                if code in (exit_codes.DELIVERED, exit_codes.UNDELIVERED, exit_codes.NOTHING_LEFT):
                    return code
                log.warning("the delivery from %s ended with exit code %s; trying again", directory, code)
            await asyncio.sleep(delays.next())

    async def _remove(self, ref: AttemptRef, directory: Path) -> None:
        await self._dispatchers.place.remove(directory)
        if missing := await asyncio.to_thread(self._remove_files, ref, directory):
            self._download_cache.want(missing.engine, missing.items)

    def _remove_files(self, ref: AttemptRef, directory: Path) -> MissingDownloads | None:
        """Remove everything of an ended attempt, and return what its engine had to download. The attempt's directory goes after
        what only it leads to."""
        missing = downloads.read(directory)
        self.history.add(remembered_points.read(directory / files.HISTORY))
        last_outputs.keep(directory, self._instance.outputs)
        self._workspaces.remove(directory)
        self._engine_directories.remove(directory)
        try:
            directories.remove(directory)
        except FileNotFoundError:  # a grant that could not be written has no directory
            pass
        except OSError as error:  # everything in it is delivered, so the next runner process may try again
            log.error("%s cannot be removed: %s", directory, error)
        self._temp_directories.remove(ref)
        return missing

    async def _quarantine_directory(self, ref: AttemptRef, directory: Path) -> None:
        """Keep what the server refused, so that a person can look at it and remove it. It may be the only copy of a state."""
        place = self._dispatchers.of(directory).place  # a file of the directory says which dispatcher it is
        await place.retrieve(directory)
        await asyncio.to_thread(self._workspaces.move_into, directory)
        await asyncio.to_thread(self._engine_directories.remove, directory)
        kept = self._instance.undelivered / directory.name
        await asyncio.to_thread(durable.rename, directory, kept)
        # Only now: a process that starts after a crash must not find a directory of which nothing is left elsewhere.
        await place.remove(kept)  # it has the mark that names its container
        await asyncio.to_thread(self._temp_directories.remove, ref)
        log.error("attempt %d of %s could not be delivered; what it left is kept in %s", ref.attempt, ref.job_id, kept)

    def _free_slot(self, ref: AttemptRef) -> None:
        self._slots.freed(ref)
        self.on_slot_freed()


def describe_end(ended: AttemptEnd, process: ProcessRecord) -> str:
    """Say how an executor ended, for the people who read about a lost attempt."""
    if ended.reason:
        return ended.reason
    code = ended.code
    if process.boot_id and process.boot_id != process_record.boot_id():
        return "the host was restarted while it ran"
    if code is None:
        return "the executor ended while no runner watched it"
    return f"the executor was ended by signal {-code}" if code < 0 else f"the executor ended with exit code {code}"
