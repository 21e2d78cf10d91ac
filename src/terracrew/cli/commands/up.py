"""`terracrew up`: runs everything on this machine in one process."""

from pathlib import Path
from typing import Any

import click

from terracrew.cli.commands.server.options import PLACES, config_option, hold_option, settings_options
from terracrew.cli.commands.server.serve import Given, serve


@click.command()
@config_option
@hold_option
@settings_options(*PLACES)
def up(file: Path | None, is_held: bool, **options: Any) -> None:
    """Start everything on this machine: server, SQLite, and a runner that serves all modules.

    The first start prints a login link. Ctrl-C stops it; running jobs continue, and the next start finds them.
    """
    serve(Given(file, options), with_builtin_runner=True, is_held=is_held)
