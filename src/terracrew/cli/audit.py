"""`terracrew audit`: who changed what."""

from itertools import islice

import click

from terracrew.cli import show
from terracrew.cli.target import Target, pass_target


@click.group()
def audit() -> None:
    """Who changed what, and when."""


@audit.command("list")
@click.option("--target", "thing", metavar="ID", help="Only changes of this one, by its id.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many, newest first.")
@show.json_option
@pass_target
def list_entries(target: Target, thing: str | None, limit: int, as_json: bool) -> None:
    """List the changes, newest first."""
    items = list(islice(target.api().list("/audit", target=thing), limit))
    if as_json:
        return show.as_json(items)
    rows = [
        (show.age(i["created_at"]), i["actor_name"], i["action"], i["details"].get("path") or i["target_id"])
        for i in items
    ]
    return show.table(("WHEN", "WHO", "ACTION", "WHAT"), rows, empty="nothing has been changed yet")
