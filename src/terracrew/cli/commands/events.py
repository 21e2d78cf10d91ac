"""`terracrew events`: prints changes on the server as they happen."""

import click

from terracrew.cli.connection import outages
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output

TOPICS = ("access", "jobs", "runners", "tree")


@click.command()
@output.json_option
@pass_target
def events(target: Target) -> None:
    """Print a line for each change of a job, a runner, the tree or access, with its id if known, until Ctrl-C."""
    as_json = output.wants_json()
    if not as_json:
        output.note("waiting for changes; press Ctrl-C to stop")
    api = target.api()
    outages.wait_out(api)
    for event in api.events("/events"):
        if event.name in TOPICS:
            if as_json:
                output.print_json({"topic": event.name, "id": event.data})
            else:
                click.echo(f"{event.name}  {event.data}")
