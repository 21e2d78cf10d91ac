"""`terracrew service-account`: manages accounts for programs, their secrets, and the runners that use them."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, references, values
from terracrew.cli.arguments.references import api_path
from terracrew.cli.commands.access import account_trust
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Conflict, Invalid


@click.command("assign")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("runner", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def assign(target: Target, account: str, runner: str) -> output.CommandResult:
    """Let the processes of RUNNER authenticate with ACCOUNT, which must belong to its group or to a group above it."""
    api = target.api()
    made = api.patch(api_path(runner), {"service_account": references.service_account(api, account)})
    return output.message(made, f"{made['path']} authenticates with {account}")


@click.command("unassign")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("runner", shell_complete=name_completion.runners)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def unassign(target: Target, account: str, runner: str, yes: bool) -> output.CommandResult:
    """Take ACCOUNT away from RUNNER. Connections that were opened with it end within seconds."""
    api = target.api()
    found = api.get(api_path(runner))
    if found["service_account_id"] != references.service_account(api, account):
        raise Conflict(f"{found['path']} does not authenticate with {account}")
    if not yes:
        token = (
            "" if found["has_worker_token"] else " It has no token of its own, so none of its processes can connect."
        )
        output.ask(
            f"Take {account} away from {found['path']}? Connections that were opened with it end within seconds.{token}",
            "Nothing changed.",
        )
    made = api.patch(api_path(runner), {"service_account": None})
    return output.message(made, f"{made['path']} no longer authenticates with {account}")


@click.group("service-account", cls=LazyGroup)
def service_account() -> None:
    """Manage accounts for programs, and their secrets. ACCOUNT is an account's name, path or id."""


@service_account.command("list")
@click.argument("group", default="", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def list_accounts(target: Target, group: str) -> output.CommandResult:
    """List the service accounts of GROUP and below it, or of the organization."""
    items = list(target.api().list("/service-accounts", group=group or None))
    rows = [(i["name"], i["group"] or "(organization)", _status(i), output.age(i["created_at"])) for i in items]
    empty = "no service accounts: `terracrew service-account create NAME`"
    return output.listing(items, ("NAME", "GROUP", "STATUS", "CREATED"), rows, empty=empty)


@service_account.command("show")
@click.argument("account", shell_complete=name_completion.service_accounts)
@output.json_option
@pass_target
def show(target: Target, account: str) -> output.CommandResult:
    """Show ACCOUNT with its roles and the runners that use it."""
    api = target.api()
    found = api.get(f"/service-accounts/{references.service_account(api, account)}")
    roles = [f"{each['role']} of {each['path'] or 'the organization'}" for each in found["roles"]]
    return output.details(
        found,
        [
            ("name", found["name"]),
            ("id", found["id"]),
            ("group", found["group"] or "(organization)"),
            ("status", _status(found)),
            ("roles", roles or "none"),
            ("runners", [each["path"] for each in found["runners"]] or "none"),
            ("created", output.age(found["created_at"])),
        ],
    )


@service_account.command("update")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.option("--name", "new_name", metavar="NAME", help="A new name.")
@click.option(
    "--disable/--enable",
    "is_disabled",
    default=None,
    help="Refuse its secrets and end its tokens, or accept them again.",
)
@output.json_option
@pass_target
def update(target: Target, account: str, new_name: str | None, is_disabled: bool | None) -> output.CommandResult:
    """Rename, disable or enable ACCOUNT. Runners that use a disabled account get no jobs."""
    given = {"name": new_name, "is_disabled": is_disabled}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise Invalid("no option was given that changes it: see `terracrew service-account update --help`")
    api = target.api()
    made = api.patch(f"/service-accounts/{references.service_account(api, account)}", changes)
    return output.message(made, f"service account {made['name']} is {_status(made)}")


@service_account.command(
    "create",
    epilog=output.examples(
        "terracrew service-account create ci --group platform",
        "terracrew role grant platform/ci operator --group platform",
        "terracrew service-account add-secret platform/ci",
    ),
)
@click.argument("name")
@click.option(
    "--group",
    default="",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="The group that it belongs to [the organization].",
)
@output.json_option
@pass_target
def create(target: Target, name: str, group: str) -> output.CommandResult:
    """Create the service account NAME. It has no role and no secret yet."""
    made = target.api().post("/service-accounts", {"name": name, "group": group})

    def show() -> None:
        click.echo(f"created service account {made['name']} ({made['id']})")
        # The role is suggested for the account's own group: without --group it would apply to the whole organization.
        # An account of the organization has no path, and a user may have the same name.
        named = f"{made['group']}/{made['name']}" if made.get("group") else made["id"]
        output.note(f"next: terracrew role grant {named} operator{f' --group {group}' if group else ''}")
        output.note(f"and:  terracrew service-account add-secret {named}")
        output.note(f"or, without a secret:  terracrew service-account trust add {named} --issuer URL --claim sub=…")

    return output.CommandResult(made, show)


@service_account.command("delete")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def delete(target: Target, account: str, yes: bool) -> output.CommandResult:
    """Delete ACCOUNT with its secrets and roles."""
    if not yes:
        output.ask(f"Delete the service account {account} with its secrets and roles?", "Not deleted.")
    api = target.api()
    api.delete(f"/service-accounts/{references.service_account(api, account)}")
    return output.message({"deleted": account}, f"deleted service account {account}")


@service_account.command("secrets")
@click.argument("account", shell_complete=name_completion.service_accounts)
@output.json_option
@pass_target
def secrets(target: Target, account: str) -> output.CommandResult:
    """List the secrets of ACCOUNT, without their values."""
    api = target.api()
    items = api.get(f"/service-accounts/{references.service_account(api, account)}/secrets")["items"]
    rows = [
        (i["id"], output.age(i["created_at"]), output.age(i["last_used_at"]), output.age(i["expires_at"]))
        for i in items
    ]
    return output.listing(items, ("ID", "CREATED", "LAST USED", "EXPIRES"), rows, empty=f"{account} has no secrets")


@service_account.command("add-secret")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.option("--expires-in-days", type=values.WholeNumber(1, 3650), metavar="N", help="Expires after N days.")
@output.json_option
@pass_target
def add_secret(target: Target, account: str, expires_in_days: int | None) -> output.CommandResult:
    """Add a secret to ACCOUNT and print the client id and the secret. The secret is shown only once."""
    api = target.api()
    body = {"expires_in_days": expires_in_days} if expires_in_days else {}
    made = api.post(f"/service-accounts/{references.service_account(api, account)}/secrets", body)

    def show() -> None:
        output.note(
            "store the secret now, it is not shown again; programs exchange both values for a token at /connect/token"
        )
        click.echo(f"client_id={made['client_id']}")
        click.echo(f"client_secret={made['client_secret']}")

    return output.CommandResult(made, show)


@service_account.command("revoke-secret")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("secret_id", metavar="ID")
@output.json_option
@pass_target
def revoke_secret(target: Target, account: str, secret_id: str) -> output.CommandResult:
    """Revoke the secret ID of ACCOUNT. Tokens that were obtained with it become invalid within seconds."""
    api = target.api()
    api.delete(f"/service-accounts/{references.service_account(api, account)}/secrets/{segment(secret_id)}")
    return output.message({"revoked": secret_id}, f"revoked {secret_id}")


service_account.add_command(assign)
service_account.add_command(unassign)
service_account.add_command(account_trust.trust)


def _status(account: dict[str, Any]) -> str:
    return "disabled" if account["is_disabled"] else "enabled"
