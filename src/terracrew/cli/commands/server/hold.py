"""`terracrew server hold` and `release`: what a server does not hand out since its database was set back."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("hold")
@click.option("--start", is_flag=True, help="Hold the server now, for example before a failover.")
@click.option("--reason", default="", help="Why, for those who find it held.")
@output.json_option
@pass_target
def hold(target: Target, start: bool, reason: str) -> output.CommandResult:
    """Show whether the server hands out changes, and what is known of its modules since its database was set back."""
    api = target.api()
    found = api.post("/hold", {"reason": reason}) if start else api.get("/hold")
    return output.CommandResult(found, lambda: _print(found))


@click.command("release")
@click.argument("modules", nargs=-1, metavar="[MODULE]...", shell_complete=name_completion.modules)
@click.option("--all", "is_all", is_flag=True, help="Release the whole server.")
@click.option(
    "--untouched",
    "is_untouched",
    is_flag=True,
    help="Nothing was changed since: let the next plans begin without an approval.",
)
@output.json_option
@pass_target
def release(target: Target, modules: tuple[str, ...], is_all: bool, is_untouched: bool) -> output.CommandResult:
    """Hand out changes of these modules again, or of all.

    A released module stays in doubt: its next plan shows what it would change, and waits for an approval.
    With --untouched it does not, except with --all for modules that are known to have been changed.
    """
    if bool(modules) == is_all:
        raise click.UsageError("name the modules to release, or give --all")
    api = target.api()
    found: Any = None
    for module in modules or (None,):
        found = api.post("/hold/release", {"module": module, "is_untouched": is_untouched})
    return output.CommandResult(found, lambda: _print(found))


def _print(found: dict[str, Any]) -> None:
    if not found["is_held"]:
        click.echo("the server is not held: it hands out changes")
        return
    about = found["hold"]
    click.echo(f"held {output.lasting(about['started_at'])}: {about['reason']}")
    if about["set_back_to"]:
        click.echo(f"the database was set back to {about['set_back_to']} and knows nothing of what happened after that")
    held, changed = found["held_modules"], found["changed_modules"]
    click.echo(f"modules that are held: {held}; modules that are known to have been changed since: {changed}")
    rows = [
        (each["path"], "held" if each["is_held"] else "released", each["evidence"] or "may have been changed")
        for each in found["modules"]
    ]
    output.table(("module", "status", "since then"), rows, empty="there is no module")
    click.echo(
        "release what you have looked at: `terracrew server release MODULE`, or `terracrew server release --all`"
    )
