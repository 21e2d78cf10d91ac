"""Options that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from terracrew.cli.arguments import name_completion, values

F = TypeVar("F", bound=Callable[..., Any])
timeout = click.option(
    "--timeout", type=values.Number(min=0), metavar="SECONDS", help="Stop waiting after this time (exit code 13)."
)


def group(text: str, default: str | None = None) -> Callable[[F], F]:
    """Return the option --group with this help."""
    return click.option("--group", default=default, metavar="PATH", shell_complete=name_completion.groups, help=text)


def module(text: str) -> Callable[[F], F]:
    """Return the option --module with this help."""
    return click.option("--module", metavar="PATH", shell_complete=name_completion.modules, help=text)


def limit(most: int, default: int, text: str) -> Callable[[F], F]:
    """Return the option --limit with this help."""
    return click.option("--limit", type=values.WholeNumber(1, most), default=default, show_default=True, help=text)


def combine(*options: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that adds all of these options, in the order in which the help shows them."""

    def add(command: F) -> F:
        decorated: Any = command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add
