"""`terracrew api` and `events`: one request to the API, for operations that have no command, and changes as they happen."""

import sys

import click
import msgspec

from terracrew.cli.connection import deadline
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid


@click.command("api")
@click.argument("method", type=click.Choice(["GET", "POST", "PATCH", "DELETE"], case_sensitive=False))
@click.argument("path")
@click.option("--data", "-d", metavar="JSON", help="The request body; - reads it from standard input.")
@pass_target
def api(target: Target, method: str, path: str, data: str | None) -> None:
    """Send one request to PATH, for example `/jobs?active=true`, and print the response. The page /api lists all requests."""
    body = None
    if data is not None:
        try:
            body = msgspec.json.decode(sys.stdin.read() if data == "-" else data)
        except msgspec.DecodeError as error:
            raise Invalid(f"--data is not JSON: {error}") from None
    place = "/" + path.removeprefix("/api/v1").lstrip("/")
    client = target.api()
    if method.upper() == "GET":
        answer = client.get(place)
    elif method.upper() == "POST":
        answer = client.post(place, body)
    elif method.upper() == "PATCH":
        answer = client.patch(place, body)
    else:
        answer = client.delete(place, body)
    output.print_json(answer)


TOPICS = ("access", "jobs", "runners", "tree")


@click.command()
@output.with_target
def events(target: Target) -> None:
    """Print a line for each change of a job, a runner, the tree or access, with its id if known, until Ctrl-C."""
    as_json = output.wants_json()
    if not as_json:
        output.note("waiting for changes; press Ctrl-C to stop")
    api = target.api()
    deadline.wait_out(api)
    for event in api.events("/events"):
        if event.name in TOPICS:
            if as_json:
                output.print_json({"topic": event.name, "id": event.data})
            else:
                click.echo(f"{event.name}  {event.data}")
