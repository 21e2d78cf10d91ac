"""`terracrew role`: who may do what in which group or module, and why."""

import functools
from collections.abc import Callable
from typing import Any

import click

from terracrew.api.access import Explanation, NewRole, PlaceStep, Role, RoleBinding, RoleListed, Verb
from terracrew.cli.arguments import name_completion, options, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.errors import Invalid, NotFound

VERBS = [verb.value for verb in Verb if not verb.startswith(("hub.", "attempt."))]
"""What people and service accounts may be asked about."""


@click.command("explain")
@click.argument("who", shell_complete=name_completion.users)
@click.argument("verb", metavar="VERB", type=click.Choice(VERBS))
@click.argument("path", default="", shell_complete=name_completion.places)
@output.with_target
def explain(target: Target, who: str, verb: str, path: str) -> output.CommandResult:
    """Explain whether WHO may VERB at PATH, a group or module, or at the organization without PATH.

    WHO is `me`, a user, or a service account by id or `group/name`. VERB is `tree`, `job`, `state`, `runner` or `access` with
    `.read` or, except for `job`, `.write`; or `job.run`, `job.cancel`, `job.approve`, `audit.read`, `server.admin`.
    """
    found = target.api().get("/access/explain", Explanation, principal=who, verb=verb, path=path)

    def show() -> None:
        click.echo(f"{'Yes' if found.is_allowed else 'No'}: {found.sentence}")
        for depth, step in enumerate(found.steps):
            click.echo(f"{'  ' * (depth + 1)}{_step(step)}")
        for limit in found.limits:
            click.echo(f"Limit: {limit}")
        if found.sufficient_roles:
            click.echo(f"Roles that would allow it: {', '.join(found.sufficient_roles)}")
            granters = [*found.can_be_granted_by, "administrators of the server"]
            click.echo(f"They can be granted by: {', '.join(granters)}")

    return output.CommandResult(found, show)


def _step(step: PlaceStep) -> str:
    name = step.path.rpartition("/")[2] or "the organization"
    role = step.role
    if role is None:
        return name
    by = role.created_by_name or "Terracrew"
    ends = f", expires {output.age(role.expires_at)}" if role.expires_at else ""
    mark = "  <- decides" if step.is_deciding else ""
    return f"{name}: {role.role}, granted by {by} {output.age(role.created_at)}{ends}{mark}"


def _arguments_of_a_grant(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the arguments that name a role, who has it, and the kind and the path of the place where it is granted."""

    @functools.wraps(command)
    def run(*args: Any, group: str | None, module: str | None, **values: Any) -> Any:
        if group is not None and module is not None:
            raise Invalid("give either --group or --module, not both")
        place = ("group", group or "") if module is None else ("module", module)
        return command(*args, kind=place[0], path=place[1], **values)

    return options.combine(
        click.argument("principal", metavar="WHO", shell_complete=name_completion.users),
        click.argument("role", type=click.Choice([role.value for role in Role])),
        options.group("The group where the role is granted [the organization]."),
        options.module("The module where the role is granted."),
    )(run)


@click.group(cls=LazyGroup)
def role() -> None:
    """Grant and revoke roles in groups and modules.

    A viewer can read. An operator can also run jobs, an approver also decide about plans, an owner also change everything.
    """


@role.command("list")
@options.group("Only roles that apply to this group, also from the groups above it.")
@options.module("Only roles that apply to this module, also from the groups above it.")
@click.option(
    "--user",
    "who",
    metavar="WHO",
    shell_complete=name_completion.users,
    help="Only roles of this user or service account.",
)
@click.option("--own", "is_own", is_flag=True, help="With --group or --module: leave out what applies from above.")
@output.with_target
def list_roles(
    target: Target, group: str | None, module: str | None, who: str | None, is_own: bool
) -> output.CommandResult:
    """List who has which role where, and who granted it."""
    if group is not None and module is not None:
        raise Invalid("give either --group or --module, not both")
    path = group if group is not None else module
    query = {"principal": who} if path is None else {"principal": who, "path": path, "inherited": not is_own}
    items = list(target.api().list("/roles", RoleListed, **query))
    rows = [
        (
            i.principal_name or i.principal_id,
            i.role,
            _place(i),
            i.created_by_name or "Terracrew",
            output.age(i.created_at),
            output.age(i.expires_at),
        )
        for i in items
    ]
    columns = ("WHO", "ROLE", "WHERE", "GRANTED BY", "WHEN", "EXPIRES")
    return output.listing(items, columns, rows, empty="no roles: `terracrew role grant`")


@role.command(
    "grant",
    epilog=output.examples(
        "terracrew role grant ada operator --group platform",
        "terracrew role grant ada approver --module platform/network",
        "terracrew role grant acme/deploy operator --group acme --expires-in-days 30",
    ),
)
@_arguments_of_a_grant
@settings.request_options(NewRole, "new", own=("principal", "role", "kind", "path"))
@output.with_target
def grant(target: Target, new: NewRole) -> output.CommandResult:
    """Give WHO (a user, or a service account by id or `group/name`) the role ROLE.

    A role in a group also applies to everything below the group.
    """
    made = target.api().post("/roles", new, RoleBinding)
    until = f" for {new.expires_in_days} days" if new.expires_in_days else ""
    return output.message(made, f"{new.principal} is {new.role} of {_place(made)}{until}")


@role.command("revoke")
@_arguments_of_a_grant
@output.with_target
def revoke(target: Target, principal: str, role: str, kind: str, path: str) -> output.CommandResult:
    """Take the role ROLE away from WHO, with immediate effect."""
    api, who = target.api(), principal
    for each in api.list("/roles", RoleListed, principal=who):
        if (each.role, each.place_kind, each.path) == (role, kind, path):
            api.delete(f"/roles/{each.id}")
            break
    else:
        raise NotFound(f"{who} is not {role} of {path or 'the organization'}", hint="`terracrew role list` lists them")
    return output.message(
        {"revoked": role, "who": who, "path": path}, f"{who} is no longer {role} of {path or 'the organization'}"
    )


def _place(binding: RoleBinding) -> str:
    return binding.path or "the organization"


role.add_command(explain)
