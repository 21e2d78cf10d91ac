"""The runner: puts its parts together and ends them, in a process of its own or inside the server's."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

from terracrew.errors import Removed
from terracrew.runner import environment, isolation
from terracrew.runner.attempts.claims import Claims
from terracrew.runner.attempts.reports import Reports
from terracrew.runner.attempts.supervisor import Crew
from terracrew.runner.config import RunnerConfig
from terracrew.runner.connection.hub_connection import Connection
from terracrew.runner.dispatch.local import Local
from terracrew.runner.instance import Instance
from terracrew.runner.processes import cgroup_discovery
from terracrew.runner.processes.cgroup_discovery import NoCgroups
from terracrew.runner.stop import Stop

log = logging.getLogger(__name__)


async def run(
    config: RunnerConfig, stop: Stop, *, set_levels: Callable[[dict[str, str]], None] = lambda _: None
) -> None:
    """Run until told to stop; raises what makes it senseless to go on (Conflict, Incompatible, Invalid, Removed)."""
    is_built_in = config.is_built_in
    # Before anything of ours is open: what it is forked from can then inherit nothing.
    helpers = environment.of_helper(os.environ, is_built_in=is_built_in)
    dispatcher = Local(config.executor_entry, helpers, config.engine_paths)
    instance = None
    try:
        instance = Instance(config.working_directory)
        _track(dispatcher, config, instance)
        isolation.describe(config.isolation, [config.working_directory, config.temp_directory])
        claims, reports = Claims(config.capacity), Reports()
        base = environment.of_engines(os.environ, is_built_in=is_built_in)
        async with asyncio.TaskGroup() as tasks:
            crew = Crew(config, instance, dispatcher, claims, reports, base, tasks)
            connection = Connection(config, instance.key, crew, claims, reports, stop, set_levels)
            crew.recover()
            link = tasks.create_task(connection.run())
            leaving = tasks.create_task(_told_to_leave(stop, connection, crew, claims))
            try:
                await asyncio.wait({link, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if link.done() and isinstance(error := link.result(), Removed):
                    log.error("%s", error)
                    reports.close()
                    await _delivered(crew, stop)
            finally:
                crew.leave()
                leaving.cancel()
                link.cancel()
        if not link.cancelled():
            raise link.result()
    finally:
        await dispatcher.close()
        if instance is not None:
            instance.release()


def _track(dispatcher: Local, config: RunnerConfig, instance: Instance) -> None:
    try:
        found = cgroup_discovery.find(config.cgroup, instance.key)
    except NoCgroups as reason:
        log.info("attempts are tracked by sessions and descendants, not by cgroups: %s", reason)
    else:
        dispatcher.track_in(found)
        log.info("attempts are tracked by cgroups under %s", found.root)


async def _delivered(crew: Crew, stop: Stop) -> None:
    """Stay for what still runs: it is delivered by the attempts' own credentials, and by us if their executors die."""
    if crew.refs:
        log.warning("ending when %d attempts have been delivered; told to stop, at once", len(crew.refs))
    while crew.refs and not stop.drain.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.25):
                await stop.drain.wait()


async def _told_to_leave(stop: Stop, connection: Connection, crew: Crew, claims: Claims) -> None:
    await stop.drain.wait()
    connection.drained()
    if crew.refs:
        log.info("stopping when %d attempts have ended; told again, they go on alone", len(crew.refs))
    while not stop.leave.is_set() and (crew.refs or claims.pending):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.25):
                await stop.leave.wait()
    log.info("leaving%s", f"; {len(crew.refs)} attempts go on" if crew.refs else "")
