"""`terracrew release token`: manages the tokens with which releases are published."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, references, values
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment


@click.group(cls=LazyGroup)
def token() -> None:
    """Manage release tokens. Such a token can publish releases, and nothing else."""


@token.command("create", epilog=output.examples("terracrew release token create ci --expires-in-days 30"))
@click.argument("name")
@click.option(
    "--expires-in-days", type=values.WholeNumber(min=1), metavar="N", help="Expires after N days; 90 by default."
)
@output.json_option
@pass_target
def create(target: Target, name: str, expires_in_days: int | None) -> output.CommandResult:
    """Create a release token called NAME. It is printed once, and it is the only line on standard output."""
    body: dict[str, Any] = {"name": name, "expires_in_days": expires_in_days}
    made = target.api().post("/release-tokens", body)
    return output.message(
        made,
        made["token"],
        before=f"store the token {made['name']} now, it is not shown again; it ends {output.moment(made['expires_at'])}, and "
        f"`terracrew release token revoke {made['name']}` revokes it",
    )


@token.command("list")
@output.json_option
@pass_target
def list_tokens(target: Target) -> output.CommandResult:
    """List the release tokens, without their values."""
    items = list(target.api().list("/release-tokens"))
    rows = [
        (
            each["name"],
            each["created_by_name"],
            output.age(each["created_at"]),
            output.age(each["last_used_at"]),
            output.age(each["expires_at"]),
        )
        for each in items
    ]
    empty = "no release tokens: `terracrew release token create NAME`"
    return output.listing(items, ("NAME", "CREATED BY", "CREATED", "LAST USED", "EXPIRES"), rows, empty=empty)


@token.command("revoke")
@click.argument("token", metavar="NAME", shell_complete=name_completion.release_tokens)
@output.json_option
@pass_target
def revoke(target: Target, token: str) -> output.CommandResult:
    """Revoke the release token with this name or id. It becomes invalid at once."""
    api = target.api()
    api.delete(f"/release-tokens/{segment(references.release_token(api, token))}")
    return output.message({"revoked": token}, f"revoked {token}")
