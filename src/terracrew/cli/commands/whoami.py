"""`terracrew whoami`: shows the user and the server of this command line."""

from typing import Any

import click

from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command()
@output.json_option
@pass_target
def whoami(target: Target) -> output.Result:
    """Show the user and the server of this command line."""
    me = target.api().get("/me")
    found = target.resolve()
    organizations = me.get("organizations", [])
    names = {each["id"]: each["name"] for each in organizations}
    roles = [_role(each, names if len(names) > 1 else {}) for each in me["roles"]]
    return output.details(
        {**me, "url": found.url},
        [
            ("name", me["name"]),
            ("kind", me["kind"].replace("_", " ")),
            ("roles", ["administrator", *roles] if me["is_system_admin"] else roles or "none"),
            ("organization", names.get(me.get("organization_id"))),
            ("organizations", list(names.values()) if len(names) > 1 else ""),
            ("server", f"{found.url}  ({found.url_from})"),
            ("token", f"from {found.token_from}"),
        ],
    )


def _role(binding: dict[str, Any], names: dict[str, str]) -> str:
    """Return a role with its place, and with the name of its organization if there are several."""
    name = names.get(binding.get("organization_id", ""))
    return f"{binding['role']} of {binding['path'] or name or 'the organization'}" + (
        f" in {name}" if name and binding["path"] else ""
    )
