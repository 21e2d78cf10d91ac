"""`terracrew server`: starts the server without a runner, and commands for its operator."""

from pathlib import Path
from typing import Any

import click

from terracrew.cli.commands.server import admin, configuration, issuer, operations
from terracrew.cli.commands.server.serve import Given, config_option, hold_option, serve, settings_options
from terracrew.cli.lazy import LazyGroup


@click.group(cls=LazyGroup, invoke_without_command=True, subcommand_metavar="[COMMAND]")
@config_option
@hold_option
@settings_options()
@click.option(
    "--with-runner/--without-runner",
    default=None,
    help="Whether to run built-in runners in this process; by default only if the settings file declares some.",
)
@click.pass_context
def server(ctx: click.Context, file: Path | None, with_runner: bool | None, is_held: bool, **options: Any) -> None:
    """Start the server; runners connect to it. It listens on loopback by default.

    Options override TERRACREW_SERVER_… variables, which override the settings file; only the file declares shared
    runners. The commands below are for the server's operator. The options of `server` go before the command.
    """
    given = Given(file, options)
    if ctx.invoked_subcommand is None:
        serve(given, with_builtin_runner=with_runner, is_held=is_held)
    ctx.obj = given


for _command in (
    admin.backup,
    admin.admin_token,
    admin.admin_link,
    configuration.settings,
    configuration.environment,
    configuration.schema,
    configuration.worker_token,
    operations.hold,
    operations.release,
    issuer.issuer,
    admin.adopt_object_store,
    operations.rekey,
    operations.usage,
    operations.retention,
):
    server.add_command(_command)
