"""`terracrew token`: API tokens for scripts."""

import click

from terracrew.cli import show
from terracrew.cli.target import Target, pass_target


@click.group()
def token() -> None:
    """API tokens for scripts: each may do what the person who made it may do."""


@token.command("create")
@click.argument("name")
@click.option("--expires-in-days", type=click.IntRange(min=1), metavar="N", help="Forget it after so many days.")
@show.json_option
@pass_target
def create(target: Target, name: str, expires_in_days: int | None, as_json: bool) -> None:
    """Create a token called NAME. It is printed once, alone on standard output."""
    body = {"name": name} | ({"expires_in_days": expires_in_days} if expires_in_days else {})
    made = target.api().post("/tokens", body)
    if as_json:
        return show.as_json(made)
    show.note(f"{made['id']}: keep it, it is shown only now")
    return click.echo(made["token"])


@token.command("list")
@show.json_option
@pass_target
def list_tokens(target: Target, as_json: bool) -> None:
    """List your tokens; none of them can be read again."""
    items = list(target.api().list("/tokens"))
    if as_json:
        return show.as_json(items)
    rows = [(i["id"], i["name"], show.age(i["created_at"]), i.get("expires_at")) for i in items]
    return show.table(("ID", "NAME", "AGE", "EXPIRES"), rows, empty="no tokens: `terracrew token create NAME`")


@token.command("revoke")
@click.argument("token_id", metavar="ID")
@show.json_option
@pass_target
def revoke(target: Target, token_id: str, as_json: bool) -> None:
    """Revoke the token ID; whoever uses it is refused from now on."""
    from terracrew.client.http import segment

    target.api().delete(f"/tokens/{segment(token_id)}")
    if as_json:
        return show.as_json({"revoked": token_id})
    return click.echo(f"revoked {token_id}")
