"""Options for the dispatcher that starts the jobs of a group or a module, and for what it starts them in."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from terracrew.cli.arguments.limit_options import NONE, OrNone, megabytes

F = TypeVar("F", bound=Callable[..., Any])
_KEY = "terracrew.dispatcher_options"


def _processors(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        assert param.name
        ctx.meta.setdefault(_KEY, {})[param.name.removeprefix("dispatcher_")] = value[0]


def _option(name: str, field: str, kind: click.ParamType[Any], metavar: str, text: str) -> Callable[[F], F]:
    field = f"dispatcher_{field}"
    return click.option(name, field, type=kind, metavar=metavar, expose_value=False, callback=_keep, help=text)


_TEXT = OrNone(lambda text: text or None, "a name")
_OPTIONS = (
    _option(
        "--dispatcher",
        "name",
        _TEXT,
        f"NAME|{NONE}",
        "The name or the type of the dispatcher of a runner that starts its jobs, such as `kubernetes`.",
    ),
    _option("--executor-image", "image", _TEXT, f"IMAGE|{NONE}", "The image that the dispatcher starts its jobs in."),
    _option(
        "--executor-memory",
        "memory_mb",
        OrNone(megabytes, "a size such as 512MB or 2GB"),
        f"2GB|{NONE}",
        "The memory that the dispatcher gives to each of its jobs.",
    ),
    _option(
        "--executor-cpu",
        "cpu",
        OrNone(_processors, "a number of processors such as 1.5"),
        f"N|{NONE}",
        "The processors that the dispatcher gives to each of its jobs.",
    ),
    _option(
        "--executor-service-account",
        "service_account",
        _TEXT,
        f"NAME|{NONE}",
        "The service account that its jobs run as where the dispatcher starts them.",
    ),
)


def _keep_inherits(ctx: click.Context, _param: click.Parameter, value: bool | None) -> None:
    if value is not None:
        ctx.meta.setdefault(_KEY, {})["inherits"] = value


def dispatcher(command: F) -> F:
    """Add the options."""
    command = click.option(
        "--inherit-dispatcher/--no-inherit-dispatcher",
        default=None,
        expose_value=False,
        callback=_keep_inherits,
        help="Whether what the groups above ask of a dispatcher applies as well; it does by default.",
    )(command)
    for each in reversed(_OPTIONS):
        command = each(command)
    return command


def given() -> dict[str, Any]:
    """Return what was given, as the field of the request."""
    found = click.get_current_context().meta.get(_KEY)
    return {"dispatcher": found} if found else {}
