"""Starts a server with the settings of its file, the environment and the command line."""

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from terracrew.cli.connection import local

if TYPE_CHECKING:
    from terracrew.cli.printing import output
    from terracrew.settings.merging import Merged
    from terracrew.settings.server import ServerSettings


class Given(NamedTuple):
    """What the command line says about a server's settings."""

    file: Path | None
    options: Mapping[str, object]
    runner_environment: tuple[str, ...] = ()
    """What engines of built-in runners get of this environment if no setting says it."""

    def merged(self) -> "Merged[ServerSettings]":
        from terracrew.settings import server_layers

        options = {name: value for name, value in self.options.items() if value not in (None, ())}
        return server_layers.merged(self.file, options)

    def settings(self) -> "ServerSettings":
        found = self.merged().settings
        if found.runner_environment is not None or self._is_environment_of_server(found):
            return found
        return found.model_copy(update={"runner_environment": list(self.runner_environment)})

    def environment_of_engines(self) -> "output.CommandResult":
        """Return which variables of this shell engines of built-in runners would get."""
        from terracrew.cli.printing import settings_table

        found = self.settings()
        return settings_table.show_beside_server(found.runner_environment or [], found.external_facts.secret_variables)

    @staticmethod
    def _is_environment_of_server(settings: "ServerSettings") -> bool:
        """Return whether the server itself may use variables of clouds, which no job gets then unless a setting names them."""
        return bool(settings.object_store or settings.external.settings)


pass_given = click.make_pass_decorator(Given)
"""Hands a command of `terracrew server` what was given before it."""


def serve(given: Given, *, with_builtin_runner: bool | None, is_held: bool) -> None:
    """Serve until the process is told to stop. None: built-in runners run if the settings file declares some."""
    gc.disable()  # what is imported is no garbage, and to look for some took a sixth of the start
    from terracrew.server.main import run

    gc.freeze()
    gc.enable()
    settings = given.settings()
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host  # noqa: S104  (compared, not bound)
    with local.announced(f"http://{f'[{host}]' if ':' in host else host}:{settings.port}", settings.directory):
        run(settings, with_builtin_runner=with_builtin_runner, is_held=is_held, reread=given.settings)
