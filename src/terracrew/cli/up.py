"""`terracrew up`: everything on this machine, in one process."""

from typing import Any

import click

from terracrew.cli.server import place_options, serve


@click.command()
@place_options
def up(**given: Any) -> None:
    """Start everything on this machine: server, SQLite, and a runner that serves all modules.

    The first start prints a link to log in by. Ctrl-C stops it; jobs that run go on and are found again.
    """
    serve(given, with_builtin_runner=True)
