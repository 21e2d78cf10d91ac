"""`terracrew token` and `terracrew release token`: manage API tokens for scripts, and tokens with which releases are published."""

import click

from terracrew.api.access import ApiToken, CreatedToken, NewToken
from terracrew.api.releases import CreatedReleaseToken, NewReleaseToken, ReleaseToken
from terracrew.cli.arguments import name_completion, references, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output


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
@settings.request_options(
    NewToken,
    "new",
    own=("name",),
    removals={
        "expires_in_days": (
            "--no-end",
            "Never expires. Whoever finds it can use it until somebody revokes it.",
        )
    },
)
@output.with_target
def create(target: Target, new: NewToken) -> output.CommandResult:
    """Create a token called NAME. It is printed once, and it is the only line on standard output."""
    return _made(target.api().post("/tokens", new, CreatedToken), "terracrew token")


@token.command("list")
@click.option("--user", metavar="NAME", shell_complete=name_completion.users, help="List the tokens of another user.")
@output.with_target
def list_tokens(target: Target, user: str | None) -> output.CommandResult:
    """List your tokens, without their values."""
    items = list(target.api().list(references.tokens_path(user), ApiToken))
    rows = [(i.name, output.age(i.created_at), output.age(i.last_used_at), output.age(i.expires_at)) for i in items]
    empty = "no tokens: `terracrew token create NAME`"
    return output.listing(items, ("NAME", "CREATED", "LAST USED", "EXPIRES"), rows, empty=empty)


@token.command("revoke")
@click.argument("token", metavar="NAME", shell_complete=name_completion.tokens)
@click.option("--user", metavar="NAME", shell_complete=name_completion.users, help="Revoke a token of another user.")
@output.with_target
def revoke(target: Target, token: str, user: str | None) -> output.CommandResult:
    """Revoke the token with this name or id. It becomes invalid at once."""
    api = target.api()
    api.delete(references.token_path(api, token, user))
    return output.message({"revoked": token}, f"revoked {token}")


@click.group("token", cls=LazyGroup)
def release_token() -> None:
    """Manage release tokens. Such a token can publish releases, and nothing else."""


@release_token.command("create", epilog=output.examples("terracrew release token create ci --expires-in-days 30"))
@click.argument("name")
@settings.request_options(NewReleaseToken, "new", own=("name",))
@output.with_target
def create_release_token(target: Target, new: NewReleaseToken) -> output.CommandResult:
    """Create a release token called NAME. It is printed once, and it is the only line on standard output."""
    return _made(target.api().post("/release-tokens", new, CreatedReleaseToken), "terracrew release token")


@release_token.command("list")
@output.with_target
def list_release_tokens(target: Target) -> output.CommandResult:
    """List the release tokens, without their values."""
    items = list(target.api().list("/release-tokens", ReleaseToken))
    rows = [
        (i.name, i.created_by_name, output.age(i.created_at), output.age(i.last_used_at), output.age(i.expires_at))
        for i in items
    ]
    empty = "no release tokens: `terracrew release token create NAME`"
    return output.listing(items, ("NAME", "CREATED BY", "CREATED", "LAST USED", "EXPIRES"), rows, empty=empty)


@release_token.command("revoke")
@click.argument("token", metavar="NAME", shell_complete=name_completion.release_tokens)
@output.with_target
def revoke_release_token(target: Target, token: str) -> output.CommandResult:
    """Revoke the release token with this name or id. It becomes invalid at once."""
    api = target.api()
    api.delete(references.release_token_path(api, token))
    return output.message({"revoked": token}, f"revoked {token}")


def _made(made: CreatedToken | CreatedReleaseToken, command: str) -> output.CommandResult:
    ends = f"it ends {output.age(made.expires_at)}" if made.expires_at else "it never ends by itself"
    return output.message(
        made,
        made.token,
        before=f"store the token {made.name} now, it is not shown again; {ends}, and `{command} revoke {made.name}` revokes it",
    )
