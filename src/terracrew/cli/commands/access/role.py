"""`terracrew role`: who may do what in which group or module."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.arguments import name_completion, references
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

ROLES = ("viewer", "operator", "approver", "owner")


def _arguments_of_a_grant(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments that name a role, who has it, and where it is granted."""
    for add in (
        click.option(
            "--module",
            metavar="PATH",
            shell_complete=name_completion.modules,
            help="The module where the role is granted.",
        ),
        click.option(
            "--group",
            metavar="PATH",
            shell_complete=name_completion.groups,
            help="The group where the role is granted [the organization].",
        ),
        click.argument("role", type=click.Choice(ROLES)),
        click.argument("who", shell_complete=name_completion.users),
    ):
        command = add(command)
    return command


def _checked_place(group: str | None, module: str | None) -> tuple[str, str]:
    """Return the kind and the path of the place that the options name."""
    if group is not None and module is not None:
        raise Invalid("give either --group or --module, not both")
    return ("module", module) if module is not None else ("group", group or "")


@click.group()
def role() -> None:
    """Grant and revoke roles in groups and modules.

    A viewer can read. An operator can also run jobs, an approver also decide about plans, an owner also change everything.
    """


@role.command("list")
@output.json_option
@pass_target
def list_roles(target: Target, as_json: bool) -> None:
    """List who has which role where."""
    api = target.api()
    items = list(api.list("/roles"))
    if as_json:
        return output.as_json(items)
    names = _names(api)
    rows = [
        (names.get(i["principal_id"], i["principal_id"]), i["role"], _place(i), output.age(i["created_at"]))
        for i in items
    ]
    return output.table(("WHO", "ROLE", "WHERE", "GRANTED"), rows, empty="no roles: `terracrew role grant`")


@role.command("grant")
@_arguments_of_a_grant
@output.json_option
@pass_target
def grant(target: Target, who: str, role: str, group: str | None, module: str | None, as_json: bool) -> None:
    """Give WHO (a user's name, or the id of a service account) the role ROLE.

    A role in a group also applies to everything below the group.
    """
    kind, path = _checked_place(group, module)
    made = target.api().post("/roles", {"principal": who, "role": role, "kind": kind, "path": path})
    if as_json:
        return output.as_json(made)
    return click.echo(f"{who} is {role} of {_place(made)}")


@role.command("revoke")
@_arguments_of_a_grant
@output.json_option
@pass_target
def revoke(target: Target, who: str, role: str, group: str | None, module: str | None, as_json: bool) -> None:
    """Take the role ROLE away from WHO, with immediate effect."""
    kind, path = _checked_place(group, module)
    api = target.api()
    principal = who if who.startswith(("usr_", "sac_")) else references.user(api, who)
    for each in api.list("/roles"):
        if (each["principal_id"], each["role"], each["place_kind"], each["path"]) == (principal, role, kind, path):
            api.delete(f"/roles/{each['id']}")
            break
    else:
        raise NotFound(f"{who} is not {role} of {path or 'the organization'}", hint="`terracrew role list` lists them")
    if as_json:
        return output.as_json({"revoked": role, "who": who, "path": path})
    return click.echo(f"{who} is no longer {role} of {path or 'the organization'}")


def _place(binding: dict[str, Any]) -> str:
    return binding["path"] or "the organization"


def _names(api: "Api") -> dict[str, str]:
    """Return the names of the users and service accounts that the caller may see, by id."""
    found: dict[str, str] = {}
    for place in ("/users", "/service-accounts"):
        try:
            found |= {each["id"]: each["name"] for each in api.list(place)}
        except Forbidden:
            continue
    return found
