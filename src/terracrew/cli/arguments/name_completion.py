"""Asks the server for names to complete in a shell. If it does not answer quickly, nothing is completed."""

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from terracrew.cli.connection.target import Target
from terracrew.errors import TerracrewError

TIMEOUT_SECONDS = 1.5
MAX_NAMES = 200


def modules(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a module."""
    del parameter
    return _named(context, "/modules", typed, lambda each: (each["path"], each["engine"]), recursive=True)


def groups(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a group."""
    del parameter
    return _named(context, "/groups", typed, lambda each: (each["path"], each["description"]))


def places(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a group or a module."""
    return [*groups(context, parameter, typed), *modules(context, parameter, typed)]


def runners(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a runner."""
    del parameter
    return _named(context, "/runners", typed, lambda each: (each["path"], each["status"].lower()))


def jobs(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the number of one of the newest jobs."""
    del parameter

    def described(job: dict[str, Any]) -> tuple[str, str]:
        return str(job["number"]), f"{job['type'].lower()} of {job['module_path']}, {job['status'].lower()}"

    return _named(context, "/jobs", typed, described)


def fleet_jobs(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the number of one of the newest jobs of the fleet."""
    del parameter

    def described(job: dict[str, Any]) -> tuple[str, str]:
        return str(job["number"]), f"{job['type'].lower()} of {job['target_name']}, {job['status'].lower()}"

    return _named(context, "/fleet-jobs", typed, described)


def tokens(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of one of your tokens."""
    del parameter
    return _named(context, "/tokens", typed, lambda each: (each["name"], ""))


def releases(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the version of a release."""
    del parameter
    return _named(context, "/releases", typed, lambda each: (each["version"], each["released_at"][:10]))


def release_tokens(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of a release token."""
    del parameter
    return _named(context, "/release-tokens", typed, lambda each: (each["name"], ""))


def users(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of a user."""
    del parameter
    return _named(context, "/users", typed, lambda each: (each["name"], ""))


def service_accounts(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a service account."""
    del parameter

    def described(account: dict[str, Any]) -> tuple[str, str]:
        group = account["group"]
        return f"{group}/{account['name']}" if group else account["name"], ""

    return _named(context, "/service-accounts", typed, described)


def cloud_identities(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a cloud identity."""
    del parameter
    return _named(context, "/cloud-identities", typed, lambda each: (each["path"], each["location"]))


def organizations(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of an organization."""
    del parameter
    return _named(context, "/organizations", typed, lambda each: (each["name"], ""))


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
