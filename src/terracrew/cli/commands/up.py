"""`terracrew up`: runs everything on this machine in one process."""

from pathlib import Path
from typing import Any

import click

from terracrew.cli.commands.server.serve import Given, config_option, hold_option, serve, settings_options


@click.command()
@config_option
@hold_option
@settings_options(is_for_up=True)
@click.option(
    "--show-environment",
    "shows_environment",
    is_flag=True,
    help="Print which variables of this shell the engines would get, and start nothing.",
)
def up(file: Path | None, is_held: bool, shows_environment: bool, **options: Any) -> None:
    """Start everything on this machine: server, SQLite, and a runner that serves all modules.

    The first start prints a login link. Ctrl-C stops it; running jobs continue, and the next start finds them.

    Engines get the usual variables of clouds and of OpenTofu, Terraform and Pulumi from this shell, such as AWS_PROFILE,
    ARM_CLIENT_ID, TF_VAR_name and TF_CLI_CONFIG_FILE; --show-environment prints them, and --runner-environment chooses.
    """
    from terracrew.runner.environment import CLOUD_VARIABLES

    given = Given(file, options, CLOUD_VARIABLES)
    if shows_environment:
        given.environment_of_engines().show()
        return None
    return serve(given, with_builtin_runner=True, is_held=is_held)
