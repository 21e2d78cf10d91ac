"""Asks the server for names to complete in a shell. If it does not answer quickly, nothing is completed."""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from terracrew.cli.connection.target import Target
from terracrew.errors import TerracrewError

TIMEOUT_SECONDS = 1.5
MAX_NAMES = 200


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Described = Callable[[dict[str, Any]], tuple[str, str]]
"""Returns a name, and what the shell shows beside it."""


def _complete(place: str, described: Described, **query: Any) -> Complete:
    """Return a function that completes the names of what a list of the API has."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        del parameter
        return _named(context, place, typed, described, **query)

    return complete


def _account(account: dict[str, Any]) -> tuple[str, str]:
    return f"{account['group']}/{account['name']}" if account["group"] else account["name"], ""


def _job(job: dict[str, Any]) -> tuple[str, str]:
    target = job.get("module_path") or job.get("target_name")
    return str(job["number"]), f"{job['type'].lower()} of {target}, {job['status'].lower()}"


modules = _complete("/modules", lambda each: (each["path"], each["engine"]), recursive=True)
groups = _complete("/groups", lambda each: (each["path"], each["description"]))
runners = _complete("/runners", lambda each: (each["path"], each["status"].lower()))
jobs = _complete("/jobs", _job)
fleet_jobs = _complete("/fleet-jobs", _job)
tokens = _complete("/tokens", lambda each: (each["name"], ""))
releases = _complete("/releases", lambda each: (each["version"], each["released_at"][:10]))
release_tokens = _complete("/release-tokens", lambda each: (each["name"], ""))
users = _complete("/users", lambda each: (each["name"], ""))
service_accounts = _complete("/service-accounts", _account)
cloud_identities = _complete("/cloud-identities", lambda each: (each["path"], each["location"]))
organizations = _complete("/organizations", lambda each: (each["name"], ""))


def places(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a group or a module."""
    return [*groups(context, parameter, typed), *modules(context, parameter, typed)]


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
    """Raise instead of retrying: the person has pressed a key and is waiting."""
    raise error


def _target(context: click.Context) -> Target:
    """Read the options before the command here, because no command runs while a line is completed."""
    given = context.find_root().params
    return Target(given.get("url"), given.get("profile"), given.get("token_file"), given.get("organization"))
