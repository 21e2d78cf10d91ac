"""The runner: creates its parts and ends them, in a process of its own or inside the server's process."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from terracrew.errors import CredentialEnded, Invalid, Removed, TerracrewError
from terracrew.protocol.messages import TrialReport
from terracrew.runner import engine_users, environment, isolation, notices
from terracrew.runner.attempts.reports import Reports
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.config import RunnerConfig
from terracrew.runner.connection.hub_connection import HubConnection
from terracrew.runner.departure import Stop
from terracrew.runner.dispatch import dispatchers as registry
from terracrew.runner.handover import Launched, SettingsSource
from terracrew.runner.instance import LocalInstance
from terracrew.runner.lifetime import Interruption, Lifetime
from terracrew.runner.one_job import OneJob
from terracrew.runner.reload import ConfigUpdates

if TYPE_CHECKING:
    from terracrew.runner.updating.updater import Updater

log = logging.getLogger(__name__)


class TrialFailed(TerracrewError):
    """The no-op job of a runner that was started on trial has failed. The process exits with the code 1."""

    code = "trial_failed"


_MIN_CLAIMED_USERS = 8
"""With more users than attempts, the processes of the machine are looked at less often (`EngineUsers.take`)."""
_REPORT_SECONDS = 30.0
"""How long a runner whose no-op job has failed waits for a connection to say so."""
_POLL_SECONDS = 0.25
"""How often a runner that is stopping looks whether its attempts have ended."""


async def run(
    config: RunnerConfig,
    stop: Stop,
    *,
    set_levels: Callable[[dict[str, str]], None] = lambda _: None,
    updates: ConfigUpdates | None = None,
    one_job: OneJob | None = None,
    launched: Launched | None = None,
    source: SettingsSource | None = None,
) -> None:
    """Run until told to stop, or until one job has been run. Raises the error that makes running pointless (Conflict, Incompatible,
    Invalid, Removed), unless the one job was run, or its credential has ended."""
    is_built_in = config.is_built_in
    if one_job is not None:
        config = msgspec.structs.replace(config, is_for_one_job=True)
    # The dispatcher `local` starts a process: this one has opened nothing yet, so no descriptor is inherited.
    zygote_environment = environment.for_zygote(os.environ, is_built_in=is_built_in)
    dispatchers = await registry.open_all(config, zygote_environment)
    instance = None
    try:
        instance = LocalInstance(config.working_directory, launched.lock if launched else None)
        dispatchers.use_instance(instance.key)
        config = await _with_users(config)
        slots, reports = Slots(config.capacity, is_for_one_job=config.is_for_one_job), Reports()
        patterns = config.environment_patterns
        engine_environment = environment.for_engines(os.environ, is_built_in=is_built_in, patterns=patterns)
        async with asyncio.TaskGroup() as tasks:
            supervisor = AttemptSupervisor(config, instance, dispatchers, slots, reports, engine_environment, tasks)
            connection = HubConnection(config, instance.key, supervisor, slots, reports, stop, set_levels)
            if updates is not None:
                updates.attach(supervisor.use_config, connection.use_config)
            if one_job is not None:
                supervisor.on_taken = one_job.take
            has_users = supervisor.prepare_users()
            own_directories = [config.working_directory, config.temp_directory]
            isolation.describe(config.isolation, own_directories, has_users=has_users)
            if config.dispatcher == engine_users.DISPATCHER and (
                warning := engine_users.warn_if_root(config.engine_accounts)
            ):
                log.warning("%s", warning)
            supervisor.recover()
            background = [tasks.create_task(Interruption(stop, supervisor, config.stop_seconds).run())]
            watch = None if is_built_in else notices.find(config.notices, os.environ, stop.departures)
            lifetime = Lifetime(config, stop, connection, slots, lambda: supervisor.is_idle)
            background.append(tasks.create_task(lifetime.run()))
            if watch is not None:
                await watch.step()  # a runner that is started again before its machine ends must not take a job first
                background.append(tasks.create_task(watch.run()))
            updater = None
            if launched is not None and source is not None:
                updater = _updater(config, source, connection, stop, supervisor)
                background.append(tasks.create_task(updater.run()))
            connecting = tasks.create_task(connection.run())
            stopping = tasks.create_task(_stop_on_signal(stop, instance, connection, supervisor))
            ends: set[asyncio.Task[Any]] = {connecting, stopping}
            proving = None
            if config.is_on_trial:
                proving = tasks.create_task(_prove(config, connection, supervisor, updater))
                ends.add(proving)
            if one_job is not None:
                ends.add(tasks.create_task(_end_after_one_job(one_job, stop, supervisor)))
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if connecting.done() and isinstance(error := connecting.result(), CredentialEnded | Removed):
                    log.error("%s", error)
                    reports.close()
                    await _wait_for_deliveries(supervisor, stop)
            finally:
                if one_job is not None:
                    one_job.is_left = not supervisor.is_idle
                supervisor.stop_watching()
                for task in (*ends, *background):
                    task.cancel()
        if proving is not None and not proving.cancelled():
            raise proving.result()
        if not connecting.cancelled() and not _is_expected(connecting.result(), one_job):
            raise connecting.result()
    finally:
        await dispatchers.close()
        if instance is not None:
            instance.release()


def _updater(
    config: RunnerConfig,
    source: SettingsSource,
    connection: HubConnection,
    stop: Stop,
    supervisor: AttemptSupervisor,
) -> "Updater":
    from terracrew.runner.updating.updater import Updater  # few runners update themselves, and it takes memory

    return Updater(
        config,
        source,
        connection,
        stop,
        lambda: supervisor.is_starting,
        lambda: supervisor.is_idle,
        is_on_trial=config.is_on_trial,
    )


async def _prove(
    config: RunnerConfig, connection: HubConnection, supervisor: AttemptSupervisor, updater: "Updater | None"
) -> TrialFailed:
    """Run the no-op job once a server has answered, and let the runner take jobs if it passes. Returns why it has to end if it fails."""
    from terracrew.runner import trial  # few runners are on trial, and it takes memory

    await connection.welcomed.wait()
    log.info("on trial: this runner takes no job before a no-op job has passed")
    proved = await trial.prove(supervisor, connection.engines, is_engine_installed=config.is_engine_installed)
    if proved.is_passed and updater is not None and not updater.confirm(proved.words):
        return TrialFailed("this version was given up before it had proved itself")
    connection.end_trial(TrialReport(proved.is_passed, proved.words, proved.seconds))
    if proved.is_passed:
        log.info("the no-op job has passed: %s", proved.words)
        await asyncio.Event().wait()
    await connection.send_rest(_REPORT_SECONDS)
    return TrialFailed(f"this runner cannot run jobs: {proved.words}")


async def _with_users(config: RunnerConfig) -> RunnerConfig:
    """Return the settings with the users that the runner claims for its engines, if it is to do that and may."""
    kinds = {config.dispatcher, *(each.type for each in config.named_dispatchers)}
    if not config.claims_engine_users or not engine_users.is_privileged() or engine_users.DISPATCHER not in kinds:
        return config
    wanted = max(config.capacity, _MIN_CLAIMED_USERS)
    try:
        claimed = await asyncio.to_thread(engine_users.claim, config.working_directory, wanted)
    except (OSError, Invalid) as error:
        log.warning("this runner finds no users for its engines: %s", error)
        return config
    return msgspec.structs.replace(config, engine_accounts=claimed)


def _is_expected(error: TerracrewError, one_job: OneJob | None) -> bool:
    """Return whether the exit code of the one job says more than this error."""
    return one_job is not None and (one_job.is_taken.is_set() or isinstance(error, CredentialEnded))


async def _end_after_one_job(one_job: OneJob, stop: Stop, supervisor: AttemptSupervisor) -> None:
    """Return when the one job has been run and delivered. If none comes in time, stop as on a signal: a claim may be on its way."""
    try:
        async with asyncio.timeout(one_job.settings.wait_seconds):
            await one_job.is_taken.wait()
    except TimeoutError:
        log.warning("no job came within %g s", one_job.settings.wait_seconds)
        stop.drain.set()
        await one_job.is_taken.wait()
    while not supervisor.is_idle:  # noqa: ASYNC110 - it has no event for its last attempt
        await asyncio.sleep(_POLL_SECONDS)


async def _wait_for_deliveries(supervisor: AttemptSupervisor, stop: Stop) -> None:
    """Wait until a removed runner's attempts are delivered. Executors use the attempts' own credentials for that, and
    the runner uses them for an executor that dies."""
    if supervisor.refs:
        log.warning("exiting when %d attempts have been delivered; SIGTERM exits at once", len(supervisor.refs))
    while supervisor.refs and not stop.drain.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await stop.drain.wait()


async def _stop_on_signal(
    stop: Stop, instance: LocalInstance, connection: HubConnection, supervisor: AttemptSupervisor
) -> None:
    await stop.drain.wait()
    instance.say_draining()
    connection.drain()
    if supervisor.refs and not stop.exit.is_set():
        log.info("stopping when %d attempts have ended; %s", len(supervisor.refs), _what_follows(stop))
    while not stop.exit.is_set() and supervisor.refs and not _has_passed(stop):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await stop.exit.wait()
    log.info("exiting%s", f"; {len(supervisor.refs)} attempts continue" if supervisor.refs else "")


def _what_follows(stop: Stop) -> str:
    """Say what becomes of attempts that take longer."""
    departure = stop.departures.current
    if departure is None or departure.ends_at is None:
        return "a second signal stops the runner now and lets them continue"
    left = departure.ends_at - time.time()
    return f"this runner ends in {left:.0f} s, and interrupts them before that; a second signal interrupts them now"


def _has_passed(stop: Stop) -> bool:
    """Return whether the time is over that the runner has after a signal."""
    departure = stop.departures.current
    return departure is not None and departure.ends_at is not None and departure.ends_at <= time.time()
