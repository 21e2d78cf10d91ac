"""Starts a server with the settings of its file, the environment and the command line, and makes the options of its settings.

`terracrew.settings` reads the variables itself, so that it knows which layer a value came from and can report all mistakes.
"""

import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

from terracrew.cli.connection import local
from terracrew.settings.names import kinds_of_field
from terracrew.settings.server import PREFIX, WITHOUT_OPTION, ServerSettings
from terracrew.settings.values import Option

if TYPE_CHECKING:
    from terracrew.cli.printing import output
    from terracrew.settings.merging import Merged

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = ("SECONDS", "HOURS", "DAYS", "COUNT", "URL")


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
        execute_again = run(settings, with_builtin_runner=with_builtin_runner, is_held=is_held, reread=given.settings)
    if execute_again is not None:
        execute_again()


def config_option(command: F) -> F:
    """Add the option that names the settings file."""
    return click.option(
        "--config",
        "file",
        type=click.Path(path_type=Path),
        envvar=f"{PREFIX}CONFIG",
        show_envvar=True,
        help="Settings file, JSON or TOML.",
    )(command)


def hold_option(command: F) -> F:
    """Add the option that lets a server hand out nothing that changes something."""
    return click.option(
        "--hold",
        "is_held",
        is_flag=True,
        help="Hand out nothing that changes something until `terracrew server release`, as after a restored backup.",
    )(command)


def settings_options(*, is_for_up: bool = False) -> Callable[[F], F]:
    """Add an option for each setting, or for each that `terracrew up` has, too. Its others are in its file or in variables."""

    def add(command: F) -> F:
        for name, field in reversed(ServerSettings.model_fields.items()):
            kind, notes = kinds_of_field(field)[0]
            how = next((note for note in notes if isinstance(note, Option)), Option())
            if name not in WITHOUT_OPTION and (how.is_in_up or not is_for_up):
                command = _option(name, field, kind, how)(command)
        return command

    return add


def _option(name: str, field: FieldInfo, kind: Any, how: Option) -> Callable[[F], F]:
    values = get_args(kind) if get_origin(kind) is Literal else ()
    many = get_origin(kind) is list
    default = "" if field.default in (None, "", []) else f" [{_number(field.default)}]"
    again = " Can be repeated." if many else ""
    return click.option(
        f"--{name.replace('_', '-')}",
        *([how.alias] if how.alias else []),
        name,
        multiple=many,
        shell_complete=_completion(values) if values else None,
        metavar=f"[{'|'.join(values)}]" if values else how.metavar or _unit(name),
        help=f"{(field.description or '').removesuffix('.')}{default}.{again}  [env var: {PREFIX}{name.upper()}]",
    )


def _completion(values: tuple[str, ...]) -> Callable[..., list[CompletionItem]]:
    """Complete the values. The settings refuse any other one, together with everything else that is wrong."""

    def complete(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
        return [CompletionItem(value) for value in values if value.startswith(typed)]

    return complete


def _unit(name: str) -> str:
    return next((unit for unit in _UNITS if name.upper().endswith(unit)), "N")


def _number(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value
