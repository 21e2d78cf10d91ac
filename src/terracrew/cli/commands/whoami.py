"""`terracrew whoami`: shows the user and the server of this command line."""

import click

from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command()
@output.json_option
@pass_target
def whoami(target: Target, as_json: bool) -> None:
    """Show the user and the server of this command line."""
    me = target.api().get("/me")
    found = target.resolve()
    if as_json:
        return output.as_json({**me, "url": found.url})
    roles = [f"{each['role']} of {each['path'] or 'the organization'}" for each in me["roles"]]
    return output.facts(
        [
            ("name", me["name"]),
            ("kind", me["kind"].replace("_", " ")),
            ("roles", ["administrator", *roles] if me["is_system_admin"] else roles or "none"),
            ("server", f"{found.url}  ({found.url_from})"),
            ("token", f"from {found.token_from}"),
        ]
    )
