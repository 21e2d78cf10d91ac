"""The options for the cloud logins of a group or a module."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from terracrew.errors import Invalid
from terracrew.protocol.cloud import CloudName

F = TypeVar("F", bound=Callable[..., Any])

_KEY = "terracrew.cloud"
_KINDS = ("role", "client_id", "service_account")
"""What the clouds call somebody who logs in."""


def _read(ctx: click.Context, _: click.Parameter, value: Path | None) -> None:
    if value is None:
        return
    try:
        found = json.loads(value.read_text())
    except (OSError, ValueError) as error:
        raise Invalid(f"{value} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise Invalid(f"{value} should have an object with identities by cloud: " + ", ".join(get_args(CloudName)))
    ctx.meta.setdefault(_KEY, {}).update(found)


def _remove(ctx: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    if value:
        ctx.meta.setdefault(_KEY, {}).update(dict.fromkeys(value))


def cloud(command: F) -> F:
    """Add the options."""
    removed = click.option(
        "--no-cloud",
        type=click.Choice(get_args(CloudName)),
        multiple=True,
        expose_value=False,
        callback=_remove,
        help="Remove its own identity in this cloud, so that the one of a group above applies. Repeatable.",
    )
    file = click.option(
        "--cloud",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        expose_value=False,
        callback=_read,
        help="A JSON file that says as whom jobs log in to clouds when they plan and when they apply; see docs/cloud.md.",
    )
    return file(removed(command))


def given() -> dict[str, Any]:
    """Return the identities that were given, as the field of the request."""
    found = click.get_current_context().meta.get(_KEY)
    return {"cloud": found} if found else {}


def described(clouds: dict[str, dict[str, str]]) -> str:
    """Return in one line who jobs are in each cloud. `clouds` is as the API shows it."""
    return "; ".join(f"{name}: {', '.join(_phases(each))}" for name, each in clouds.items())


def _phases(identity: dict[str, str]) -> list[str]:
    names = [(phase, f"{phase}_{kind}") for phase in ("plan", "apply") for kind in _KINDS]
    return [f"{phase} as {identity[name]}" for phase, name in names if name in identity]
