"""`terracrew server backup`, `admin-token`, `admin-link` and `adopt-object-store`: they need the server's files and settings."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from terracrew.cli.commands.server.serve import Given, pass_given
from terracrew.cli.connection import local
from terracrew.cli.printing import output
from terracrew.errors import Conflict, Unauthenticated

if TYPE_CHECKING:
    from terracrew.settings.server import ServerSettings


@click.command("backup")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@output.json_option
@pass_given
def backup(given: Given, directory: Path) -> output.CommandResult:
    """Copy a server on SQLite into DIRECTORY while it runs: database, objects and master key.

    To restore it, start a server with a copy of DIRECTORY as its --data-directory. Anybody who can read DIRECTORY can
    read every state, so protect it like the server's own data directory.
    """
    from terracrew.server.maintenance import backup as backups

    made = backups.make(given.settings(), directory)
    left_out = "\n".join(f"not in the backup: {each}" for each in made.left_out)
    text = f"{directory}: {made.database_bytes} bytes of database, {made.objects} objects"
    return output.message(made, text, before=left_out)


@click.command("admin-token")
@output.json_option
@pass_given
def admin_token(given: Given) -> output.CommandResult:
    """Print an API token of the administrator, for a command line without a browser.

    On SQLite it is the one in the data directory, which the server renews. On PostgreSQL each call makes a new one, for
    seven days; `terracrew token revoke` ends it. Used on the server's machine it may do all that a login may.
    """
    from terracrew.server.maintenance.local_token import admin_token

    token = admin_token(given.settings())
    return output.message({"token": token}, token)


@click.command("admin-link")
@output.json_option
@pass_given
def admin_link(given: Given) -> output.CommandResult:
    """Print a link that logs the administrator in to the dashboard. It works once, within an hour.

    A server on SQLite owns its database: if it is running, it is asked for the link. A new link ends an earlier one.
    """
    settings = given.settings()
    running = None if settings.is_postgres else local.of_directory(settings.directory)
    link = _new_link(settings) if running is None else _link_of(running)
    return output.message({"link": link}, link)


def _link_of(server: local.LocalServer) -> str:
    """Ask a running server for a link, with the token that it left in its data directory."""
    from terracrew.client.http import Api

    file = Path(server.data_directory) / local.TOKEN_FILE
    try:
        token = file.read_text().strip()
    except OSError as error:
        raise Unauthenticated(
            f"the token of the running server cannot be read from {file}: {error.strerror}",
            hint="run this command as the user that the server runs as",
        ) from None
    return Api(server.url, token).post("/me/link")["link"]


def _new_link(settings: "ServerSettings") -> str:
    """Make a link in the database. If a server that this user cannot find has locked it, say how to ask that server."""
    from terracrew.server.maintenance.local_token import admin_link

    try:
        return admin_link(settings)
    except Conflict as error:
        if "holder" not in error.details:
            raise
        file = settings.directory / local.TOKEN_FILE
        raise Conflict(
            f"{error.details['path']} is in use by a running server (process {error.details['holder']}), which makes the link",
            hint=f"`terracrew --url {settings.url} --token-file {file} login --link` asks it, if that is its address",
        ) from None


@click.command("adopt-object-store")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.json_option
@pass_given
def adopt_object_store(given: Given, yes: bool) -> output.CommandResult:
    """Make the object store that the settings name the one of the database, so that servers start with it.

    A server refuses to start with a store that is not that of its database. This command is for a store that was moved
    without its id, and for one that is lost. On SQLite, stop the server first.
    """
    from terracrew.server.maintenance import object_store

    settings = given.settings()
    found = object_store.survey(settings)
    if not found.is_own:
        former = f"; its former store was at {found.known.place}" if found.known else ""
        output.note(
            f"{found.place} has {found.looked_for - found.missing} of {found.looked_for} objects that were looked for, "
            f"the newest that the database refers to{former}"
        )
        if found.missing:
            output.note(
                "What is missing there (logs, archives, plans, large states) cannot be read by anybody afterwards."
            )
        if not yes:
            output.ask(f"Use {found.place} from now on?", "Nothing was changed.")
        adopted = object_store.adopt(settings)
    else:
        adopted = found.known
    words = "is the object store of the database already" if found.is_own else "is the object store of the database now"
    return output.message(adopted, f"{found.place} {words}. Start all servers with it.")
