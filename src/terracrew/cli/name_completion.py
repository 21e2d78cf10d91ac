"""Names for shell completion, asked from the server: nothing, rather than a delay or an error, where it does not answer."""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from terracrew.cli.target import Target
from terracrew.errors import TerracrewError

TIMEOUT_SECONDS = 1.5
MAX_NAMES = 200


def modules(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The paths of modules."""
    del parameter
    return _named(context, "/modules", typed, lambda each: (each["path"], each["engine"]), recursive=True)


def groups(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The paths of groups."""
    del parameter
    return _named(context, "/groups", typed, lambda each: (each["path"], each["description"]))


def runners(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The paths of runners."""
    del parameter
    return _named(context, "/runners", typed, lambda each: (each["path"], each["status"].lower()))


def jobs(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The numbers of the newest jobs."""
    del parameter

    def described(job: dict[str, Any]) -> tuple[str, str]:
        return str(job["number"]), f"{job['type'].lower()} of {job['module_path']}, {job['status'].lower()}"

    return _named(context, "/jobs", typed, described)


def tokens(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The names of your tokens."""
    del parameter
    return _named(context, "/tokens", typed, lambda each: (each["name"], ""))


def users(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The names of users."""
    del parameter
    return _named(context, "/users", typed, lambda each: (each["name"], ""))


def _named(
    context: click.Context, place: str, typed: str, described: Callable[[dict[str, Any]], tuple[str, str]], **query: Any
) -> list[CompletionItem]:
    try:
        api = _target(context).api(timeout=TIMEOUT_SECONDS)
        api.on_wait = _give_up
        found = api.get(place, limit=MAX_NAMES, **query)["items"]
    except Exception:
        return []
    rows = [described(each) for each in found]
    return [CompletionItem(name, help=text or None) for name, text in rows if name and name.startswith(typed)]


def _give_up(error: TerracrewError) -> None:
    """Somebody waits for the key that they pressed: a server that is away is not waited for."""
    raise error


def _target(context: click.Context) -> Target:
    """While a line is completed, no command runs, so that the options before it are read here."""
    given = context.find_root().params
    return Target(given.get("url"), given.get("profile"), given.get("token_file"))
