"""The options of `terracrew server` and `terracrew up`, made from the model of the server's settings.

`terracrew.settings` reads the variables itself, so that it knows which layer a value came from and can report all mistakes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from terracrew.settings.server import PREFIX, WITHOUT_OPTION, ServerSettings
from terracrew.settings.suggestions import kinds

F = TypeVar("F", bound=Callable[..., Any])
PLACES = (
    "data_directory",
    "host",
    "port",
    "local_roots",
    "runner_isolation",
    "runner_user",
    "runner_read_paths",
    "runner_write_paths",
    "runner_environment",
)
"""What `terracrew up` has as options, too. Every other setting of it is in its file or in a variable."""
_ALIASES = {"data_directory": ("--data-dir",)}
_METAVARS = {
    "data_directory": "DIR",
    "local_roots": "DIR",
    "runner_read_paths": "PATH",
    "runner_write_paths": "PATH",
    "runner_environment": "NAME",
    "trusted_proxies": "CIDR",
    "allowed_hosts": "NAME",
    "organization": "NAME",
    "master_key_file": "FILE",
    "object_store": "URL",
    "host": "HOST",
    "port": "PORT",
}
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


def settings_options(*names: str) -> Callable[[F], F]:
    """Add an option for each of these settings, or for all."""

    def add(command: F) -> F:
        for name in reversed(names or tuple(ServerSettings.model_fields)):
            if name not in WITHOUT_OPTION:
                command = _option(name)(command)
        return command

    return add


def _option(name: str) -> Callable[[F], F]:
    field = ServerSettings.model_fields[name]
    kind = kinds(field.annotation)[0]
    values = get_args(kind) if get_origin(kind) is Literal else ()
    many = get_origin(kind) is list
    default = "" if field.default in (None, "", []) else f" [{_number(field.default)}]"
    again = " Can be repeated." if many else ""
    return click.option(
        f"--{name.replace('_', '-')}",
        *_ALIASES.get(name, ()),
        name,
        multiple=many,
        shell_complete=_completion(values) if values else None,
        metavar=f"[{'|'.join(values)}]" if values else _metavar(name),
        help=f"{(field.description or '').removesuffix('.')}{default}.{again}  [env var: {PREFIX}{name.upper()}]",
    )


def _completion(values: tuple[str, ...]) -> Callable[..., list[CompletionItem]]:
    """Complete the values. The settings refuse any other one, together with everything else that is wrong."""

    def complete(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
        return [CompletionItem(value) for value in values if value.startswith(typed)]

    return complete


def _metavar(name: str) -> str:
    return _METAVARS.get(name) or next((unit for unit in _UNITS if name.upper().endswith(unit)), "N")


def _number(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, float) else value
