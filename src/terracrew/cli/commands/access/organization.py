"""`terracrew organization`: creates and manages organizations, each with a tree, users and runners of its own."""

import click

from terracrew.api.access import Me
from terracrew.api.groups import NewOrganization, Organization, OrganizationChange, OrganizationDetails
from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment


@click.group(cls=LazyGroup)
def organization() -> None:
    """Create and manage organizations. Each has a tree, users and runners of its own.

    A command works in your own organization, or in the one that `terracrew --organization NAME`, TERRACREW_ORGANIZATION or the
    profile names (`terracrew config set organization NAME`).
    """


@organization.command("list")
@output.with_target
def list_organizations(target: Target) -> output.CommandResult:
    """List the organizations in which you may work. A star marks the one that commands are about."""
    api = target.api()
    items = list(api.list("/organizations", Organization))
    current = api.get("/me", Me).organization_id
    rows = [(f"{i.name}{' *' if i.id == current else ''}", i.id, output.age(i.created_at)) for i in items]
    return output.listing(items, ("NAME", "ID", "CREATED"), rows, empty="no organizations")


@organization.command("show")
@click.argument("name", shell_complete=name_completion.organizations)
@output.with_target
def show(target: Target, name: str) -> output.CommandResult:
    """Show the organization NAME; its owners and administrators also see how much it has."""
    found = target.api().get(f"/organizations/{segment(name)}", OrganizationDetails)
    contents = [(kind.replace("_", " "), str(count)) for kind, count in found.contents.items()]
    return output.details(
        found, [("name", found.name), ("id", found.id), *contents, ("created", output.age(found.created_at))]
    )


@organization.command("create")
@click.argument("name")
@click.option("--owner", metavar="USER", shell_complete=name_completion.users, help="A user who becomes its owner.")
@output.with_target
def create(target: Target, name: str, owner: str | None) -> output.CommandResult:
    """Create the organization NAME. Only administrators may."""
    made = target.api().post("/organizations", NewOrganization(name, owner), Organization)
    return output.message(
        made,
        f"created organization {made.name} ({made.id})",
        f"next: terracrew --organization {name} user create NAME",
    )


@organization.command("update")
@click.argument("name", shell_complete=name_completion.organizations)
@click.option("--name", "new_name", required=True, metavar="NAME", help="A new name.")
@output.with_target
def update(target: Target, name: str, new_name: str) -> output.CommandResult:
    """Rename the organization NAME. Client ids that begin with its name have to be changed; those with its id need not."""
    made = target.api().patch(f"/organizations/{segment(name)}", OrganizationChange(new_name), Organization)
    return output.message(made, f"renamed organization {name} to {made.name}")


@organization.command("delete")
@click.argument("name", shell_complete=name_completion.organizations)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def delete(target: Target, name: str, yes: bool) -> output.CommandResult:
    """Delete the organization NAME, which must be empty."""
    if not yes:
        output.ask(f"Delete the organization {name}?", "Not deleted.")
    target.api().delete(f"/organizations/{segment(name)}")
    return output.message({"deleted": name}, f"deleted organization {name}")
