"""`terracrew server backup`, `admin-token` and `admin-link`: commands that need the server's files and settings."""

from pathlib import Path

import click

from terracrew.cli.commands.server.serve import GIVEN_KEY
from terracrew.cli.printing import output


@click.command("backup")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@output.json_option
@click.pass_context
def backup(ctx: click.Context, directory: Path, as_json: bool) -> None:
    """Copy a server on SQLite into DIRECTORY while it runs: database, objects and master key.

    To restore it, start a server with a copy of DIRECTORY as its --data-directory. Anybody who can read DIRECTORY can
    read every state, so protect it like the server's own data directory.
    """
    from terracrew.server.maintenance import backup as backups

    made = backups.make(ctx.meta[GIVEN_KEY].settings(), directory)
    if as_json:
        return output.as_json(made)
    for each in made.left_out:
        output.note(f"not in the backup: {each}")
    return click.echo(f"{directory}: {made.database_bytes} bytes of database, {made.objects} objects")


@click.command("admin-token")
@output.json_option
@click.pass_context
def admin_token(ctx: click.Context, as_json: bool) -> None:
    """Print an API token of the administrator, for a command line without a browser.

    On SQLite it is the one in the data directory, which the server renews. On PostgreSQL each call makes a new one, for
    seven days; `terracrew token revoke` ends it. Used on the server's machine it may do all that a login may.
    """
    from terracrew.server.maintenance.administrator import admin_token

    made = admin_token(ctx.meta[GIVEN_KEY].settings())
    return output.as_json({"token": made}) if as_json else click.echo(made)


@click.command("admin-link")
@output.json_option
@click.pass_context
def admin_link(ctx: click.Context, as_json: bool) -> None:
    """Print a link that logs the administrator in to the dashboard. It works once, within an hour.

    It needs the database, which a running server on SQLite has locked: use `terracrew login --link` then.
    """
    from terracrew.server.maintenance.administrator import admin_link

    made = admin_link(ctx.meta[GIVEN_KEY].settings())
    return output.as_json({"link": made}) if as_json else click.echo(made)
