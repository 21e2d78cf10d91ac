"""`terracrew server adopt-object-store`: makes another object store the one of a database."""

import click

from terracrew.cli.commands.server.serve import GIVEN_KEY
from terracrew.cli.printing import output


@click.command("adopt-object-store")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.json_option
@click.pass_context
def adopt_object_store(ctx: click.Context, yes: bool) -> output.Result:
    """Make the object store that the settings name the one of the database, so that servers start with it.

    A server refuses to start with a store that is not that of its database. This command is for a store that was moved
    without its id, and for one that is lost. On SQLite, stop the server first.
    """
    from terracrew.server.maintenance import object_store

    settings = ctx.meta[GIVEN_KEY].settings()
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
