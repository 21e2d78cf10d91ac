"""The runner: creates its parts and ends them, in a process of its own or inside the server's process."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

from terracrew.errors import Removed
from terracrew.runner import engine_users, environment, isolation
from terracrew.runner.attempts.claims import Claims
from terracrew.runner.attempts.reports import Reports
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.config import RunnerConfig
from terracrew.runner.connection.hub_connection import HubConnection
from terracrew.runner.dispatch import registry
from terracrew.runner.instance import LocalInstance
from terracrew.runner.reload import ConfigUpdates
from terracrew.runner.stop import Stop

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.25
"""How often a runner that is stopping looks whether its attempts have ended."""


async def run(
    config: RunnerConfig,
    stop: Stop,
    *,
    set_levels: Callable[[dict[str, str]], None] = lambda _: None,
    updates: ConfigUpdates | None = None,
) -> None:
    """Run until told to stop. Raises the error that makes running pointless (Conflict, Incompatible, Invalid, Removed)."""
    is_built_in = config.is_built_in
    # The dispatcher `local` starts a process: this one has opened nothing yet, so no descriptor is inherited.
    zygote_environment = environment.for_zygote(os.environ, is_built_in=is_built_in)
    dispatchers = await registry.open_all(config, zygote_environment)
    instance = None
    try:
        instance = LocalInstance(config.working_directory)
        dispatchers.use_instance(instance.key)
        isolation.describe(
            config.isolation, [config.working_directory, config.temp_directory], has_users=bool(config.engine_accounts)
        )
        if config.dispatcher == engine_users.DISPATCHER and (
            warning := engine_users.warn_if_root(config.engine_accounts)
        ):
            log.warning("%s", warning)
        claims, reports = Claims(config.capacity), Reports()
        engine_environment = environment.for_engines(os.environ, is_built_in=is_built_in)
        async with asyncio.TaskGroup() as tasks:
            supervisor = AttemptSupervisor(config, instance, dispatchers, claims, reports, engine_environment, tasks)
            connection = HubConnection(config, instance.key, supervisor, claims, reports, stop, set_levels)
            if updates is not None:
                updates.attach(supervisor.use_config, connection.use_config)
            supervisor.prepare_users()
            supervisor.recover()
            connecting = tasks.create_task(connection.run())
            stopping = tasks.create_task(_stop_on_signal(stop, connection, supervisor, claims))
            try:
                await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if connecting.done() and isinstance(error := connecting.result(), Removed):
                    log.error("%s", error)
                    reports.close()
                    await _wait_for_deliveries(supervisor, stop)
            finally:
                supervisor.stop_watching()
                stopping.cancel()
                connecting.cancel()
        if not connecting.cancelled():
            raise connecting.result()
    finally:
        await dispatchers.close()
        if instance is not None:
            instance.release()


async def _wait_for_deliveries(supervisor: AttemptSupervisor, stop: Stop) -> None:
    """Wait until a removed runner's attempts are delivered. Executors use the attempts' own credentials for that, and
    the runner uses them for an executor that dies."""
    if supervisor.refs:
        log.warning("exiting when %d attempts have been delivered; SIGTERM exits at once", len(supervisor.refs))
    while supervisor.refs and not stop.drain.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await stop.drain.wait()


async def _stop_on_signal(stop: Stop, connection: HubConnection, supervisor: AttemptSupervisor, claims: Claims) -> None:
    await stop.drain.wait()
    connection.drain()
    if supervisor.refs:
        log.info(
            "stopping when %d attempts have ended; a second signal stops the runner now and lets them continue",
            len(supervisor.refs),
        )
    while not stop.exit.is_set() and (supervisor.refs or claims.pending):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POLL_SECONDS):
                await stop.exit.wait()
    log.info("exiting%s", f"; {len(supervisor.refs)} attempts continue" if supervisor.refs else "")
