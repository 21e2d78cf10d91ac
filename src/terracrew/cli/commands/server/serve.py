"""Starts a server with the settings of its file, the environment and the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from terracrew.cli.connection import local

if TYPE_CHECKING:
    from terracrew.server.settings import ServerSettings
    from terracrew.settings.merging import Merged
    from terracrew.settings.server import ServerFile

GIVEN_KEY = "terracrew.server.given"


class Given(NamedTuple):
    """What the command line says about a server's settings."""

    file: Path | None
    options: dict[str, Any]
    runner_environment: tuple[str, ...] = ()
    """What engines of built-in runners get of this environment if no setting says it."""

    def merged(self) -> "Merged[ServerFile]":
        from terracrew.settings import server_layers

        return server_layers.merged(self.file, self._set())

    def settings(self) -> "ServerSettings":
        from terracrew.cli.commands.server.conversion import server_settings

        found = self.merged()
        made = server_settings(found.settings, self.file, found.external)
        if found.settings.runner_environment is not None or self._is_environment_of_server(found.settings):
            return made
        return msgspec.structs.replace(made, runner_environment=self.runner_environment)

    def show_environment(self, *, as_json: bool) -> None:
        """Print which variables of this shell engines of built-in runners would get."""
        from terracrew.cli.printing import engine_environment

        found = self.settings()
        engine_environment.show_beside_server(found.runner_environment, found.secret_variables, as_json=as_json)

    @staticmethod
    def _is_environment_of_server(settings: "ServerFile") -> bool:
        """Return whether the server itself may use variables of clouds, which no job gets then unless a setting names them."""
        return bool(settings.object_store or settings.external.settings)

    def _set(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.items() if value not in (None, ())}


def serve(given: Given, *, with_builtin_runner: bool | None, is_held: bool) -> None:
    """Serve until the process is told to stop. None: built-in runners run if the settings file declares some."""
    from terracrew.server.main import run

    settings = given.settings()
    settings.check()
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host  # noqa: S104  (compared, not bound)
    with local.announced(f"http://{f'[{host}]' if ':' in host else host}:{settings.port}", settings.directory):
        run(settings, with_builtin_runner=with_builtin_runner, is_held=is_held, reread=given.settings)
