"""`terracrew server`: starts the server without a runner, and commands for its operator."""

from pathlib import Path
from typing import Any

import click

from terracrew.cli.commands.server import admin, rekey, storage
from terracrew.cli.commands.server.options import option, place_options, retention_options
from terracrew.cli.commands.server.serve import GIVEN_KEY, serve


@click.group(invoke_without_command=True, subcommand_metavar="[COMMAND]")
@place_options
@option(
    "database_url",
    "The address of a PostgreSQL database (`postgresql://…`); by default SQLite in the data directory.",
    metavar="URL",
)
@option("public_url", "The address at which browsers and runners reach this server.", metavar="URL")
@option(
    "trusted_proxies",
    "The address or network of a reverse proxy whose X-Forwarded-For is trusted.",
    multiple=True,
    metavar="CIDR",
)
@option(
    "allowed_hosts",
    "A further host name to accept, besides loopback and that of the public URL, for example `*.example.com`.",
    multiple=True,
    metavar="NAME",
)
@option(
    "master_key_file",
    "The file with the key that encrypts secrets; required with PostgreSQL.",
    type=Path,
    metavar="FILE",
)
@option("object_store", "`s3://…`, `gs://…` or `az://…`; by default a folder in the data directory.", metavar="URL")
@option("organization", "The name of the organization that the first start creates [default].", metavar="NAME")
@option(
    "apply_lease_seconds",
    "How long to wait for an attempt that was lost in the middle of a change [1800].",
    type=click.FloatRange(min=60),
    metavar="SECONDS",
)
@option(
    "late_delivery_days",
    "How long a lost attempt may still deliver its log and states [7].",
    type=click.FloatRange(min=0, min_open=True),
    metavar="DAYS",
)
@option(
    "leftovers_days",
    "How long old instances, expired tokens and idempotency keys are kept [30].",
    type=click.FloatRange(min=1),
    metavar="DAYS",
)
@option(
    "max_connections",
    "How many connections may be open [20000].",
    type=click.IntRange(min=1),
    metavar="N",
)
@option(
    "max_connections_per_address",
    "How many HTTP connections one address (IPv6: one /64) may have open [2000].",
    type=click.IntRange(min=1),
    metavar="N",
)
@retention_options
@option(
    "object_deletion_delay_hours",
    "How long objects are kept after the last reference to them was deleted, for backups [24].",
    type=click.FloatRange(min=0),
    metavar="HOURS",
)
@click.option("--with-runner", is_flag=True, help="Also run the built-in runner in this process.")
@click.pass_context
def server(ctx: click.Context, with_runner: bool, **given: Any) -> None:
    """Start the server without a runner; runners connect to it. It listens on loopback by default.

    The commands below are for the server's operator. The options of `server` go before the name of the command.
    """
    if ctx.invoked_subcommand is None:
        serve(given, with_builtin_runner=with_runner)
    ctx.meta[GIVEN_KEY] = given


for _command in (admin.backup, admin.admin_token, admin.admin_link, rekey.rekey, storage.usage, storage.retention):
    server.add_command(_command)
