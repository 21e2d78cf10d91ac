"""Reads the server's settings again on SIGHUP, hides new files and variables with secrets from jobs, and says what needs a restart.
On SIGUSR2 it reads them, too, and restarts the server unless they are wrong."""

import asyncio
import contextlib
from collections.abc import Callable

from terracrew.errors import TerracrewError
from terracrew.logging import get_logger
from terracrew.server.context import Server
from terracrew.settings.external.section import ExternalFacts
from terracrew.settings.server import ServerSettings

RETRY_SECONDS = 60.0
"""How long a server waits after a reading failed that keeps the token for a vault alive."""
_NOT_COMPARED = ("port", "external")
"""The port is replaced by the one that the kernel chose, if it is 0; external settings are compared by their values."""
log = get_logger("terracrew.settings")


class SettingsReload:
    def __init__(self, server: Server, reread: Callable[[], ServerSettings], started_with: ServerSettings) -> None:
        self._reread, self._started_with = reread, started_with
        self._is_requested = asyncio.Event()
        self._is_restart_requested = False
        self._closing = server.closing
        self._current = started_with
        self.settings = server.settings
        """Those of the running server, with all files and variables that held a secret at its start or at any reading since."""
        self._retry_seconds: float | None = None
        self.on_hidden: Callable[[ServerSettings], None] = lambda _: None
        """Called with settings whose private paths and variables the built-in runners hide from their jobs."""

    def request(self) -> None:
        self._is_requested.set()

    def request_restart(self) -> None:
        self._is_restart_requested = True
        self._is_requested.set()

    async def run(self) -> None:
        """Read again when asked, and when the token for a vault must be renewed."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._retry_seconds or self._current.external_facts.reread_seconds):
                    await self._is_requested.wait()
            is_asked = self._is_requested.is_set()
            self._is_requested.clear()
            is_restart, self._is_restart_requested = self._is_restart_requested, False
            is_read = await self.step(is_asked=is_asked)
            if is_restart and is_read:
                self._closing.restart()

    async def step(self, *, is_asked: bool) -> bool:
        """Read the settings. Returns False if they are wrong or cannot be read: a server could not start with them."""
        try:
            found = await asyncio.to_thread(self._reread)
        except TerracrewError as error:
            self._retry_seconds = RETRY_SECONDS if self._current.external_facts.reread_seconds else None
            log.error(
                "the settings were read again and are not used; the old ones stay in effect", reason=error.message
            )
            return False
        self._retry_seconds = None
        restart = [name for name in ServerSettings.model_fields if self._needs_restart(name, found)]
        self._current = found
        before, after = self.settings.external_facts, found.external_facts
        # What was hidden before may still hold a secret, so it stays hidden.
        files = tuple(dict.fromkeys([*before.private_files, *after.private_files]))
        variables = tuple(dict.fromkeys([*before.secret_variables, *after.secret_variables]))
        if (files, variables) != (before.private_files, before.secret_variables):
            self.settings = self.settings.read_from(self.settings.file, ExternalFacts(files, variables))
            self.on_hidden(self.settings)
        if is_asked or restart:
            log.info("the settings were read again", changed=", ".join(restart) or "nothing")
        if restart:
            log.warning("these settings have changed and need a restart of the server", settings=", ".join(restart))
        return True

    def _needs_restart(self, name: str, found: ServerSettings) -> bool:
        return name not in _NOT_COMPARED and getattr(found, name) != getattr(self._started_with, name)
