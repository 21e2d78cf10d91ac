"""The runner process itself. `terracrew runner start` starts it (`handover`) with its checked settings in a descriptor."""

import asyncio
import logging
import signal
import sys
import traceback
from pathlib import Path
from typing import cast

import msgspec

from terracrew import logging as diagnostics
from terracrew.errors import TerracrewError
from terracrew.runner import handover
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Stop
from terracrew.runner.handover import Launched, SettingsSource
from terracrew.runner.main import run
from terracrew.runner.one_job import OneJob, OneJobSettings
from terracrew.runner.reload import ConfigUpdates, Reload
from terracrew.runner.updating import launcher, versions
from terracrew.system import procfs

log = logging.getLogger("terracrew.runner")


async def _run(
    config: RunnerConfig, source: SettingsSource | None, wanted: OneJobSettings | None, launched: Launched | None
) -> int:
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
        await run(
            config, stop, set_levels=set_levels, updates=updates, one_job=one_job, launched=launched, source=source
        )
        if stop.is_switching:
            return launcher.SWITCH_EXIT_CODE
        return await one_job.exit_code() if one_job else 0
    finally:
        if reloading is not None:
            reloading.cancel()


def main() -> int:
    procfs.forbid_inspection()
    config, source, one_job, launched = handover.accept(int(sys.argv[1]))
    diagnostics.configure(config.log_level)
    if launched is not None and launched.is_on_trial:
        config = msgspec.structs.replace(config, is_on_trial=True)
    if launched is None and config.updates_itself:
        log.warning("this runner does not update itself: %s", handover.why_not_launched(config, one_job))
    try:
        return asyncio.run(_run(config, source, one_job, launched))
    except TerracrewError as error:
        log.critical("%s", error)
        _give_up(config, error.message)
        return error.exit_code
    except Exception as error:
        _give_up(config, _what_failed(error))
        raise


def _give_up(config: RunnerConfig, words: str) -> None:
    """Note why this version failed its trial, so that the version before can report it."""
    if config.is_on_trial and config.updates_itself:
        versions.give_up(versions.folder_of(Path(config.working_directory)), words)


def _what_failed(error: Exception) -> str:
    """Return the error, or the first one of a group of tasks, with the line that raised it."""
    if isinstance(error, ExceptionGroup):
        return _what_failed(cast("ExceptionGroup[Exception]", error).exceptions[0])
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
