"""The options of `terracrew server` and `terracrew up`, made from the model of the server's settings.

`terracrew.settings` reads the variables itself, so that it knows which layer a value came from and can report all mistakes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

from terracrew.settings.names import kinds_of_field
from terracrew.settings.server import PREFIX, WITHOUT_OPTION, ServerSettings
from terracrew.settings.values import Option

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = ("SECONDS", "HOURS", "DAYS", "COUNT", "URL")


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
