"""`terracrew up`: runs everything on this machine in one process."""

from typing import Any

import click

from terracrew.cli.commands.server.options import place_options
from terracrew.cli.commands.server.serve import serve


@click.command()
@place_options
def up(**given: Any) -> None:
    """Start everything on this machine: server, SQLite, and a runner that serves all modules.

    The first start prints a login link. Ctrl-C stops it; running jobs continue, and the next start finds them.
    """
    serve(given, with_builtin_runner=True)
