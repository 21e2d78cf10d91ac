"""Reads the settings of a running runner again, applies what can change while it runs, and says what needs a restart."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from terracrew.runner.config import RunnerConfig
from terracrew.runner.handover import SettingsSource
from terracrew.system import own_program

log = logging.getLogger(__name__)

READY = b"ready\n"
MODULE = "terracrew.settings.reread"
"""It is started by its name, because the runner does not load it."""
READ_SECONDS = 660.0
"""Longer than all references together may take."""
RETRY_SECONDS = 60.0
"""How long a runner waits after a reading failed that keeps the token for a vault alive."""
APPLIED = {
    "client_id": "runner.credentials",
    "client_secret": "runner.credentials",
    "helper": "runner.credentials",
    "engine_paths": "engine.additional_binary_paths",
    "is_engine_installed": "engine.install",
    "source_roots": "source.local_roots",
    "warm_bytes": "warm_workspaces.max_mb",
    "warm_seconds": "warm_workspaces.max_age_hours",
    "approved_hooks_directory": "hooks_preapproval",
    "isolation": "executor, and the files that external settings name",
    "log_stream": "job_log_stream",
    "log_level": "logging.log_level",
    "discovery_host": "server.discovery_host",
    "secret_variables": "external.settings",
    "reread_seconds": "external",
}
"""The fields that apply from the next exchange of a token, job or log entry on, with the names of their settings."""
NEED_RESTART = {
    "server_url": "server.url",
    "runner_id": "runner.id",
    "runner_path": "runner.path",
    "instance": "runner.instance",
    "working_directory": "working_directory.working_directory",
    "temp_directory": "working_directory.temp_directory",
    "rotates_worker_token": "runner.rotate_worker_token",
    "capacity": "runner.capacity",
    "stop_seconds": "runner.stop_seconds",
    "idle_seconds": "runner.idle_seconds",
    "max_lifetime_seconds": "runner.max_lifetime_seconds",
    "notices": "runner.notices",
    "updates_itself": "runner.self_update",
    "release_key": "runner.release_key",
    "is_on_trial": "runner.on_trial",
    "cgroup": "working_directory.cgroup",
    "engine_accounts": "executor.user",
    "claims_engine_users": "executor.user",
    "dispatcher": "job_dispatcher.type",
    "dispatcher_data": "job_dispatcher.data",
    "dispatcher_allows": "job_dispatcher.allow",
    "named_dispatchers": "job_dispatchers",
    "executor_server_url": "job_dispatcher.data.api_url",
}
_QUIET = ("reread_seconds",)
"""What changes with every reading."""


class Reread(msgspec.Struct, frozen=True):
    config: RunnerConfig | None
    problem: str = ""


class ConfigUpdates:
    """Hands new settings to the parts of a runner that use them."""

    def __init__(self) -> None:
        self._uses: tuple[Callable[[RunnerConfig], None], ...] = ()

    def attach(self, *uses: Callable[[RunnerConfig], None]) -> None:
        self._uses = uses

    def publish(self, config: RunnerConfig) -> None:
        for use in self._uses:
            use(config)


class Reload:
    def __init__(self, config: RunnerConfig, source: SettingsSource, updates: ConfigUpdates) -> None:
        self.config = config
        self._source, self._updates = source, updates
        self._is_requested = asyncio.Event()
        self._retry_seconds: float | None = None

    def request(self) -> None:
        self._is_requested.set()

    async def run(self) -> None:
        """Read again when asked, and when the token for a vault must be renewed."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._retry_seconds or self.config.reread_seconds):
                    await self._is_requested.wait()
            is_asked = self._is_requested.is_set()
            self._is_requested.clear()
            await self.step(is_asked=is_asked)

    async def step(self, *, is_asked: bool) -> None:
        found = await _read(self._source)
        if found.config is None:
            self._retry_seconds = RETRY_SECONDS if self.config.reread_seconds else None
            log.error("the settings were read again and are not used; the old ones stay in effect: %s", found.problem)
            return
        self._retry_seconds = None
        after = _still_hiding(self.config, found.config)
        changed = [name for name in RunnerConfig.__struct_fields__ if _differs(name, self.config, after)]
        restart = sorted({NEED_RESTART[name] for name in changed if name in NEED_RESTART})
        applied = {name: getattr(after, name) for name in APPLIED}
        self.config = msgspec.structs.replace(self.config, **applied)
        self._updates.publish(self.config)
        names = sorted({APPLIED[name] for name in changed if name in APPLIED and name not in _QUIET})
        if names or restart or is_asked:
            log.info("the settings were read again; changed: %s", ", ".join(names) or "nothing that applies now")
        if restart:
            log.warning("these settings have changed and need a restart of the runner: %s", ", ".join(restart))


def _differs(name: str, before: RunnerConfig, after: RunnerConfig) -> bool:
    return getattr(before, name) != getattr(after, name)


def _still_hiding(before: RunnerConfig, after: RunnerConfig) -> RunnerConfig:
    """Return new settings that also hide the files and variables of the earlier ones: what was a secret may still be valid."""
    files = dict.fromkeys([*before.isolation.private_paths, *after.isolation.private_paths])
    variables = dict.fromkeys([*before.secret_variables, *after.secret_variables])
    isolation = msgspec.structs.replace(after.isolation, private_paths=list(files))
    return msgspec.structs.replace(after, isolation=isolation, secret_variables=list(variables))


async def _read(source: SettingsSource) -> Reread:
    """Have a process read the settings. It gets what may be secret when no other process can inspect it any more."""
    process = await asyncio.create_subprocess_exec(
        *own_program.command(MODULE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # a traceback could hold a value
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READ_SECONDS):
            if await process.stdout.readline() != READY:
                return Reread(None, "the process that reads them did not start")
            printed, _ = await process.communicate(msgspec.json.encode(source))
        return msgspec.json.decode(printed, type=Reread)
    except TimeoutError:
        return Reread(None, f"they were not read within {READ_SECONDS:g} s")
    except (msgspec.MsgspecError, ConnectionError):
        return Reread(None, f"the process that reads them ended with status {process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
