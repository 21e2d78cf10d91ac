"""`terracrew audit`: who changed what."""

from itertools import islice
from typing import Any

import click

from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.group()
def audit() -> None:
    """Show who changed what, and when."""


@audit.command("list")
@click.option("--target", "thing", metavar="ID", help="Only changes to the object with this id.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="The number of changes to list."
)
@output.json_option
@pass_target
def list_entries(target: Target, thing: str | None, limit: int, as_json: bool) -> None:
    """List the changes, newest first."""
    items = list(islice(target.api().list("/audit", target=thing), limit))
    if as_json:
        return output.as_json(items)
    rows = [(output.age(i["created_at"]), i["actor_name"], i["action"], _what(i)) for i in items]
    return output.table(("WHEN", "WHO", "ACTION", "WHAT"), rows, empty="nothing has been changed yet")


def _what(entry: dict[str, Any]) -> str:
    """Return the name of what was changed, or its id if the entry has no name."""
    details: dict[str, Any] = entry["details"]
    return str(details.get("path") or details.get("name") or details.get("module") or entry["target_id"])
