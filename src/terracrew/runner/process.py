"""The runner process itself. `terracrew runner start` starts it (`handover`) with its checked settings in a descriptor."""

import asyncio
import logging
import signal
import sys

from terracrew import logging as diagnostics
from terracrew import plugins, procfs
from terracrew.errors import TerracrewError
from terracrew.runner import engine_users, handover
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch import early_zygote
from terracrew.runner.handover import SettingsSource
from terracrew.runner.main import run
from terracrew.runner.one_job import OneJob, OneJobSettings
from terracrew.runner.reload import ConfigUpdates, Reload
from terracrew.runner.stop import Stop

log = logging.getLogger("terracrew.runner")


async def _run(config: RunnerConfig, source: SettingsSource | None, wanted: OneJobSettings | None) -> int:
    """Run, and return the exit code: 0, or that of the one job."""
    stop, loop, updates = Stop(config.stop_seconds), asyncio.get_running_loop(), ConfigUpdates()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.request, number.name)
    reload = Reload(config, source, updates) if source else None
    loop.add_signal_handler(signal.SIGHUP, reload.request if reload else lambda: None)
    # `terracrew runner start` blocks it before it reads the settings.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    reloading = asyncio.create_task(reload.run()) if reload else None

    def set_levels(levels: dict[str, str]) -> None:
        diagnostics.configure((reload.config if reload else config).log_level | levels)

    one_job = OneJob(wanted, config.server_url) if wanted else None
    try:
        await run(config, stop, set_levels=set_levels, updates=updates, one_job=one_job)
        return await one_job.exit_code() if one_job else 0
    finally:
        if reloading is not None:
            reloading.cancel()


def main() -> int:
    procfs.forbid_inspection()
    descriptor, *local = sys.argv[1:]
    if local:
        entry, *engine_paths = local
        plugins.load(plugins.DISPATCHERS, engine_users.DISPATCHER)
        early_zygote.fork(entry, engine_paths)
    config, source, one_job = handover.accept(int(descriptor))
    diagnostics.configure(config.log_level)
    try:
        return asyncio.run(_run(config, source, one_job))
    except TerracrewError as error:
        log.critical("%s", error)
        return error.exit_code
