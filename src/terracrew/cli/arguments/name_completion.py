"""Asks the server for names to complete in a shell. If it does not answer quickly, nothing is completed."""

from collections.abc import Callable
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from terracrew.api.pages import Page
from terracrew.cli.connection.target import Target
from terracrew.errors import TerracrewError

TIMEOUT_SECONDS = 1.5
MAX_NAMES = 200


class _Item(msgspec.Struct, frozen=True):
    """What the items of lists have of what is completed, or shown beside it."""

    path: str = ""
    name: str = ""
    group: str | None = ""
    number: int = 0
    type: str = ""
    status: str = ""
    state: str = ""
    module_path: str = ""
    kind: str = ""
    target_name: str | None = ""
    engine: str = ""
    description: str = ""
    location: str = ""
    url: str = ""
    issuer: str = ""
    version: str | None = ""
    released_at: str = ""


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
Described = Callable[[_Item], tuple[str, str]]
"""Returns a name, and what the shell shows beside it."""


def _complete(place: str, described: Described, **query: Any) -> Complete:
    """Return a function that completes the names of what a list of the API has."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        del parameter
        try:
            api = _target(context).api(timeout=TIMEOUT_SECONDS)
            api.on_wait = _give_up
            found = api.get(place, Page[_Item], limit=MAX_NAMES, **query).items
        except Exception:
            return []
        rows = [described(each) for each in found]
        return [CompletionItem(name, help=text or None) for name, text in rows if name and name.startswith(typed)]

    return complete


def _name(each: _Item) -> tuple[str, str]:
    return f"{each.group}/{each.name}" if each.group else each.name, ""


def _job(job: _Item) -> tuple[str, str]:
    target = job.module_path or job.target_name
    return str(job.number), f"{job.type.lower()} of {target}, {job.status.lower()}"


modules = _complete("/modules", lambda each: (each.path, each.engine), recursive=True)
groups = _complete("/groups", lambda each: (each.path, each.description))
runners = _complete("/runners", lambda each: (each.path, each.status.lower()))
jobs = _complete("/jobs", _job)
fleet_jobs = _complete("/fleet-jobs", _job)
tokens = _complete("/tokens", _name)
releases = _complete("/releases", lambda each: (each.version or "", each.released_at[:10]))
release_tokens = _complete("/release-tokens", _name)
users = _complete("/users", _name)
service_accounts = _complete("/service-accounts", _name)
cloud_identities = _complete("/cloud-identities", lambda each: (each.path, each.location))
forges = _complete("/forges", lambda each: (each.path, each.kind))
policies = _complete("/policies", lambda each: (each.path, each.state))
discovery_rules = _complete("/discovery-rules", lambda each: (each.path, each.url))
published_modules = _complete("/published-modules", lambda each: (each.path, each.description))
notification_channels = _complete(
    "/notification-channels", lambda each: (f"{each.path}/{each.name}" if each.path else each.name, each.kind)
)
organizations = _complete("/organizations", _name)
identity_providers = _complete("/identity-providers", lambda each: (each.name, each.issuer))


def places(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the path of a group or a module."""
    return [*groups(context, parameter, typed), *modules(context, parameter, typed)]


def _give_up(error: TerracrewError) -> None:
    """Raise instead of retrying: the person has pressed a key and is waiting."""
    raise error


def _target(context: click.Context) -> Target:
    """Read the options before the command here, because no command runs while a line is completed."""
    given = context.find_root().params
    return Target(given.get("url"), given.get("profile"), given.get("token_file"), given.get("organization"))
