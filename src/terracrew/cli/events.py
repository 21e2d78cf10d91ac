"""`terracrew events`: what changes on the server, as it changes."""

import click

from terracrew.cli import output
from terracrew.cli.target import Target, pass_target

TOPICS = ("jobs", "runners", "tree")


@click.command()
@output.json_option
@pass_target
def events(target: Target, as_json: bool) -> None:
    """Print a line whenever a job, a runner or the tree has changed, until Ctrl-C. It names the id, if one is known."""
    if not as_json:
        output.note("waiting for changes; Ctrl-C ends")
    for event in target.api().events("/events"):
        if event.name in TOPICS:
            if as_json:
                output.as_json({"topic": event.name, "id": event.data})
            else:
                click.echo(f"{event.name}  {event.data}")
