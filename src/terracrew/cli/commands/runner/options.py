"""The options that set a runner's settings, for `terracrew runner start` and `terracrew runner settings`."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

FLAGS = {
    "server.url": "--url",
    "runner.id": "--id",
    "runner.path": "--path",
    "runner.organization_id": "--organization",
    "runner.instance": "--instance",
    "runner.capacity": "--capacity",
    "working_directory.working_directory": "--working-directory",
}
"""The settings with an option of their own. Every other one can be given with `--set`."""
_HELP = {
    "server.url": ("URL", "The server's address (server.url)."),
    "runner.id": ("ID", "The runner's id (runner.id)."),
    "runner.path": ("PATH", "The runner's path, instead of its id (runner.path)."),
    "runner.organization_id": ("ID", "Its organization (runner.organization_id)."),
    "runner.instance": ("NAME", "The name of this instance (runner.instance)."),
    "runner.capacity": ("N", "How many jobs this instance runs at once (runner.capacity)."),
    "working_directory.working_directory": ("DIR", "The directory for attempts and caches."),
}


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets the file as `file`, the given settings by their names as `given`, and the options
    that gave them as `flags`; other settings were given with `--set`."""

    @functools.wraps(command)
    def collected(*args: Any, others: dict[str, str], **values: Any) -> Any:
        found = {name: values.pop(_argument(name)) for name in FLAGS}
        named = {name: value for name, value in found.items() if value is not None}
        return command(*args, given=others | named, flags={name: FLAGS[name] for name in named}, **values)

    decorated = click.option(
        "--set",
        "others",
        multiple=True,
        callback=_assignments,
        metavar="NAME=VALUE",
        help="Any other setting, by its name. Can be repeated.",
    )(collected)
    for name, (metavar, help_text) in reversed(_HELP.items()):
        decorated = click.option(FLAGS[name], _argument(name), metavar=metavar, help=help_text)(decorated)
    return click.option(
        "--config",
        "file",
        type=click.Path(path_type=Path),
        envvar="TERRACREW_RUNNER_CONFIG",
        help="Settings file, JSON or TOML.",
    )(decorated)


def _argument(name: str) -> str:
    return name.replace(".", "_")


def _assignments(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}
