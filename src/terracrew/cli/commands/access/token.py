"""`terracrew token`: manages API tokens for scripts."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, references, values
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment


@click.group(cls=LazyGroup)
def token() -> None:
    """Manage API tokens for scripts. A token has the permissions of the person who created it."""


@token.command(
    "create",
    epilog=output.examples(
        "terracrew token create laptop",
        "terracrew token create ci --expires-in-days 30",
    ),
)
@click.argument("name")
@click.option(
    "--expires-in-days", type=values.WholeNumber(min=1), metavar="N", help="Expires after N days; 90 by default."
)
@click.option("--no-end", is_flag=True, help="Never expires. Whoever finds it can use it until somebody revokes it.")
@output.json_option
@pass_target
def create(target: Target, name: str, expires_in_days: int | None, no_end: bool) -> output.CommandResult:
    """Create a token called NAME. It is printed once, and it is the only line on standard output."""
    if no_end and expires_in_days:
        raise click.UsageError("--no-end and --expires-in-days exclude each other")
    body: dict[str, Any] = {"name": name}
    if no_end or expires_in_days:
        body["expires_in_days"] = expires_in_days
    made = target.api().post("/tokens", body)
    ends = f"it ends {output.moment(made['expires_at'])}" if made.get("expires_at") else "it never ends by itself"
    return output.message(
        made,
        made["token"],
        before=f"store the token {made['name']} now, it is not shown again; {ends}, and `terracrew token revoke {made['name']}` revokes it",
    )


@token.command("list")
@click.option("--user", metavar="NAME", shell_complete=name_completion.users, help="List the tokens of another user.")
@output.json_option
@pass_target
def list_tokens(target: Target, user: str | None) -> output.CommandResult:
    """List your tokens, without their values."""
    items = list(target.api().list(f"/users/{segment(user)}/tokens" if user else "/tokens"))
    rows = [
        (i["name"], output.age(i["created_at"]), output.age(i.get("last_used_at")), output.age(i.get("expires_at")))
        for i in items
    ]
    return output.listing(
        items, ("NAME", "CREATED", "LAST USED", "EXPIRES"), rows, empty="no tokens: `terracrew token create NAME`"
    )


@token.command("revoke")
@click.argument("token", metavar="NAME", shell_complete=name_completion.tokens)
@click.option("--user", metavar="NAME", shell_complete=name_completion.users, help="Revoke a token of another user.")
@output.json_option
@pass_target
def revoke(target: Target, token: str, user: str | None) -> output.CommandResult:
    """Revoke the token with this name or id. It becomes invalid at once."""
    api = target.api()
    if user:
        api.delete(f"/users/{segment(user)}/tokens/{segment(references.token_of(api, user, token))}")
    else:
        api.delete(f"/tokens/{segment(references.token(api, token))}")
    return output.message({"revoked": token}, f"revoked {token}")
