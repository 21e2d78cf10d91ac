"""`terracrew provisioning`: lets an identity provider manage the people and groups of an organization by SCIM."""

import click

from terracrew.api.provisioning import (
    AdoptPerson,
    NewProvisioner,
    ProvisionedGroupListed,
    ProvisionedListed,
    ProvisionerDetails,
)
from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment


@click.group(cls=LazyGroup)
def provisioning() -> None:
    """Let an identity provider (Entra ID, Okta) manage people and groups by SCIM 2.0.

    It uses the secret of a service account that you name here. What its groups may do, rules of single sign-on say.
    """


@provisioning.command("show")
@output.with_target
def show(target: Target) -> output.CommandResult:
    """Show the service account that provisions people, and the address for the identity provider."""
    found = target.api().get("/provisioning", ProvisionerDetails)
    return _details(found)


@provisioning.command("set")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.option("--provider", default="", metavar="NAME", help="The provider of single sign-on of the same people.")
@output.with_target
def choose(target: Target, account: str, provider: str) -> output.CommandResult:
    """Let the service account ACCOUNT provision the people of the organization, instead of the one that did."""
    made = target.api().replace("/provisioning", NewProvisioner(account, provider), ProvisionerDetails)
    return _details(made)


@provisioning.command("remove")
@output.with_target
def remove(target: Target) -> output.CommandResult:
    """Let nobody provision people any more. People and groups stay as they are."""
    target.api().delete("/provisioning")
    return output.message({}, "no service account provisions people any more")


@provisioning.command("people")
@output.with_target
def people(target: Target) -> output.CommandResult:
    """List the people whom the identity provider manages."""
    items = list(target.api().list("/provisioning/people", ProvisionedListed))
    rows = [(i.user, i.user_name, _status(i), ", ".join(i.groups), output.age(i.changed_at)) for i in items]
    return output.listing(items, ("USER", "USERNAME", "STATUS", "GROUPS", "CHANGED"), rows, empty="no people")


@provisioning.command("groups")
@output.with_target
def groups(target: Target) -> output.CommandResult:
    """List the groups that the identity provider manages."""
    items = list(target.api().list("/provisioning/groups", ProvisionedGroupListed))
    rows = [(i.display_name, i.external_id, i.members, output.age(i.changed_at)) for i in items]
    return output.listing(items, ("NAME", "EXTERNAL ID", "MEMBERS", "CHANGED"), rows, empty="no groups")


@provisioning.command("adopt")
@click.argument("user", shell_complete=name_completion.users)
@click.option("--user-name", default="", metavar="TEXT", help="The userName that finds the user  [the user's name].")
@click.option("--external-id", default="", metavar="TEXT", help="The externalId of the user.")
@output.with_target
def adopt(target: Target, user: str, user_name: str, external_id: str) -> output.CommandResult:
    """Let the identity provider manage USER, who exists already."""
    made = target.api().post("/provisioning/people", AdoptPerson(user, user_name, external_id), ProvisionedListed)
    return output.message(made, f"the identity provider manages {made.user}, whom it finds as {made.user_name}")


@provisioning.command("release")
@click.argument("user", shell_complete=name_completion.users)
@output.with_target
def release(target: Target, user: str) -> output.CommandResult:
    """Manage USER by hand again. Roles by groups of the identity provider end."""
    target.api().delete(f"/provisioning/people/{segment(user)}")
    return output.message({"user": user}, f"the identity provider does not manage {user} any more")


def _details(found: ProvisionerDetails) -> output.CommandResult:
    return output.details(
        found,
        [
            ("address", found.address),
            ("service account", found.account),
            ("provider", found.provider),
            ("people", str(found.people)),
            ("groups", str(found.groups)),
        ],
    )


def _status(person: ProvisionedListed) -> str:
    if person.is_deleted:
        return "deleted"
    return "disabled" if person.is_disabled else "active"
