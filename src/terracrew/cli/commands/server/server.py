"""`terracrew server`: starts the server without a runner, and commands for its operator."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from terracrew.cli.commands.server import storage
from terracrew.cli.connection import local
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output

if TYPE_CHECKING:
    from terracrew.server.settings import ServerSettings

F = TypeVar("F", bound=Callable[..., Any])
_PREFIX = "TERRACREW_SERVER_"
_GIVEN = "terracrew.server.given"


def option(name: str, help_text: str, *aliases: str, **settings: Any) -> Callable[[F], F]:
    """Make an option that can also be set as TERRACREW_SERVER_<NAME>."""
    flags = ["--" + each.replace("_", "-") for each in (name, *aliases)]
    return click.option(*flags, name, envvar=_PREFIX + name.upper(), show_envvar=True, help=help_text, **settings)


def place_options(command: F) -> F:
    """Add the options that `up` and `server` share."""
    data = option(
        "data_directory", "The directory for all data [~/.terracrew/server].", "data_dir", metavar="DIR", type=Path
    )
    host = option("host", "The address to listen on [127.0.0.1].", metavar="HOST")
    port = option("port", "The port to listen on [7400].", type=click.IntRange(0, 65535), metavar="PORT")
    roots = option(
        "local_roots",
        "A source on a local path must be below one of these directories.",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
    )
    isolation = option(
        "runner_isolation",
        "How jobs of the built-in runner are isolated from the rest of this machine [landlock].",
        type=click.Choice(["landlock", "none"]),
    )
    reads = option(
        "runner_read_paths",
        "A further path that jobs of the built-in runner may read, besides the system and the usual credentials.",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
    )
    writes = option(
        "runner_write_paths",
        "A further path that jobs of the built-in runner may write, besides their own directories.",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
    )
    return data(host(port(roots(isolation(reads(writes(command)))))))


def _retention_options(command: F) -> F:
    """Add the options that limit how long stored data is kept."""
    for name, what in (
        ("logs", "logs of ended jobs"),
        ("states", "states that are no longer current"),
        ("archives", "archives that only ended jobs refer to"),
        ("audit", "entries of the audit log"),
    ):
        text = f"How many days {what} are kept [forever]."
        command = option(f"retain_{name}_days", text, type=click.FloatRange(min=1), metavar="DAYS")(command)
    command = option(
        "retain_plans_days",
        "How many days saved plans are kept after no attempt can need them [0].",
        type=click.FloatRange(min=0),
        metavar="DAYS",
    )(command)
    text = "How many of a module's newest states are kept, however old they are [10]."
    return option("retain_states_count", text, type=click.IntRange(min=1), metavar="COUNT")(command)


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
@_retention_options
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
    ctx.meta[_GIVEN] = given


server.add_command(storage.usage)
server.add_command(storage.retention)


@server.command("backup")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@output.json_option
@click.pass_context
def backup(ctx: click.Context, directory: Path, as_json: bool) -> None:
    """Copy a server on SQLite into DIRECTORY while it runs: database, objects and master key.

    To restore it, start a server with a copy of DIRECTORY as its --data-directory. Anybody who can read DIRECTORY can
    read every state, so protect it like the server's own data directory.
    """
    from terracrew.server.maintenance.administrator import make_backup

    made = make_backup(_settings(ctx.meta[_GIVEN]), directory)
    if as_json:
        return output.as_json(made)
    for each in made.left_out:
        output.note(f"not in the backup: {each}")
    return click.echo(f"{directory}: {made.database_bytes} bytes of database, {made.objects} objects")


@server.command("admin-token")
@click.pass_context
def admin_token(ctx: click.Context) -> None:
    """Print an API token of the administrator, for a command line without a browser.

    On SQLite it is the one in the data directory, which the server renews. On PostgreSQL each call makes a new one, for
    seven days; `terracrew token revoke` ends it. Used on the server's machine it may do all that a login may.
    """
    from terracrew.server.maintenance.administrator import admin_token

    click.echo(admin_token(_settings(ctx.meta[_GIVEN])))


@server.command("rekey")
@click.option("--no-wait", is_flag=True, help="Start the re-encryption and do not wait for its end.")
@click.option("--stop", is_flag=True, help="Stop the re-encryption; what was re-encrypted stays so.")
@output.json_option
@pass_target
def rekey(target: Target, no_wait: bool, stop: bool, as_json: bool) -> None:
    """Re-encrypt everything in the database and the object store under the newest master key, while the server runs.

    First put both keys into the master key file, with the new one in the first line, and restart the server. Afterwards
    the old key can be removed. Interrupting this command does not stop the work; run it again to watch it.
    """
    from terracrew.cli.commands.server import rekey_progress

    api = target.api()
    if stop:
        progress = api.delete("/rekey")
    else:
        progress = api.post("/rekey", {})
        if not no_wait:
            progress = rekey_progress.wait(api, output.note)
    if as_json:
        return output.as_json(progress)
    return rekey_progress.tell(progress)


@server.command("admin-link")
@click.pass_context
def admin_link(ctx: click.Context) -> None:
    """Print a link that logs the administrator in to the dashboard. It works once, within an hour.

    It needs the database, which a running server on SQLite has locked: use `terracrew login --link` then.
    """
    from terracrew.server.maintenance.administrator import admin_link

    click.echo(admin_link(_settings(ctx.meta[_GIVEN])))


def serve(given: dict[str, Any], *, with_builtin_runner: bool) -> None:
    """Serve until the process is told to stop. Settings that are not given have their defaults."""
    from terracrew.server.main import run

    settings = _settings(given)
    settings.check()
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host  # noqa: S104  (compared, not bound)
    with local.announced(f"http://{f'[{host}]' if ':' in host else host}:{settings.port}", settings.directory):
        run(settings, with_builtin_runner=with_builtin_runner)


def _settings(given: dict[str, Any]) -> "ServerSettings":
    from terracrew.server.settings import ServerSettings

    return ServerSettings(**{name: value for name, value in given.items() if value not in (None, ())})
