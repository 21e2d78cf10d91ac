"""`terracrew password`: changes the password with which you log in to the dashboard."""

import sys

import click

from terracrew.cli import show
from terracrew.cli.target import Target, pass_target


@click.command()
@show.json_option
@pass_target
def password(target: Target, as_json: bool) -> None:
    """Change your password. Your other sessions and all of your API tokens end, the one in use here included.

    Both passwords are asked for, or read from standard input: the current one, then the new one, a line each.
    """
    api = target.api()
    if sys.stdin.isatty():
        current: str = click.prompt("Current password (empty if you have none)", hide_input=True, default="", err=True)
        new: str = click.prompt("New password", hide_input=True, confirmation_prompt="Confirm password", err=True)
    else:
        current, new = sys.stdin.readline().rstrip("\n"), sys.stdin.readline().rstrip("\n")
    changed = api.post("/me/password", {"new_password": new, "current_password": current or None})
    if as_json:
        return show.as_json(changed)
    click.echo("changed your password")
    return show.note("your API tokens have ended: `terracrew login` stores a new one")
