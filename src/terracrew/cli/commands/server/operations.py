"""`terracrew server hold`, `release`, `rekey`, `usage` and `retention`: what an administrator asks of a server that runs."""

import time
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from terracrew.api.job_views import HoldView
from terracrew.api.operations import Preview, RekeyProgress, ReleaseHold, StartHold, Usage
from terracrew.cli.arguments import name_completion
from terracrew.cli.connection import deadline
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.errors import TerracrewError
from terracrew.wording import retention_words
from terracrew.wording.retention_words import size

if TYPE_CHECKING:
    from terracrew.client.http import Api

POLL_SECONDS = 0.5
_REPORT_SECONDS = 2.0
T = TypeVar("T", Preview, Usage)


@click.command("hold")
@click.option("--start", is_flag=True, help="Hold the server now, for example before a failover.")
@click.option("--reason", default="", help="Why, for those who find it held.")
@output.with_target
def hold(target: Target, start: bool, reason: str) -> output.CommandResult:
    """Show whether the server hands out changes, and what is known of its modules since its database was set back."""
    api = target.api()
    found = api.post("/hold", StartHold(reason), HoldView) if start else api.get("/hold", HoldView)
    return output.CommandResult(found, lambda: _print_hold(found))


@click.command("release")
@click.argument("modules", nargs=-1, metavar="[MODULE]...", shell_complete=name_completion.modules)
@click.option("--all", "is_all", is_flag=True, help="Release the whole server.")
@click.option(
    "--untouched",
    "is_untouched",
    is_flag=True,
    help="Nothing was changed since: let the next plans begin without an approval.",
)
@output.with_target
def release(target: Target, modules: tuple[str, ...], is_all: bool, is_untouched: bool) -> output.CommandResult:
    """Hand out changes of these modules again, or of all.

    A released module stays in doubt: its next plan shows what it would change, and waits for an approval.
    With --untouched it does not, except with --all for modules that are known to have been changed.
    """
    if bool(modules) == is_all:
        raise click.UsageError("name the modules to release, or give --all")
    api = target.api()
    found = HoldView(is_held=True)
    for module in modules or (None,):
        found = api.post("/hold/release", ReleaseHold(module, is_untouched), HoldView)
    return output.CommandResult(found, lambda: _print_hold(found))


def _print_hold(found: HoldView) -> None:
    about = found.hold
    if about is None:
        return click.echo("the server is not held: it hands out changes")
    click.echo(f"held {output.lasting(about.started_at)}: {about.reason}")
    if about.set_back_to:
        moment = f"{about.set_back_to:%Y-%m-%d %H:%M:%S} UTC"
        click.echo(f"the database was set back to {moment} and knows nothing of what happened after that")
    held, changed = found.held_modules, found.changed_modules
    click.echo(f"modules that are held: {held}; modules that are known to have been changed since: {changed}")
    rows = [
        (each.path, "held" if each.is_held else "released", each.evidence or "may have been changed")
        for each in found.modules
    ]
    output.table(("module", "status", "since then"), rows, empty="there is no module")
    return click.echo(
        "release what you have looked at: `terracrew server release MODULE`, or `terracrew server release --all`"
    )


@click.command("rekey")
@click.option("--no-wait", is_flag=True, help="Start the re-encryption and do not wait for its end.")
@click.option("--stop", is_flag=True, help="Stop the re-encryption; values that were re-encrypted already stay so.")
@output.with_target
def rekey(target: Target, no_wait: bool, stop: bool) -> output.CommandResult:
    """Re-encrypt everything in the database and the object store under the newest master key, while the server runs.

    First put both keys into the master key file, with the new one in the first line, and restart the server. Afterwards
    the old key can be removed. Interrupting this command does not stop the work; run it again to watch it.
    """
    api = target.api()
    if stop:
        progress = api.delete("/rekey", None, RekeyProgress)
    else:
        progress = api.post("/rekey", {}, RekeyProgress)
        if not no_wait:
            progress = _wait(api)
    return output.CommandResult(progress, lambda: _print_rekey(progress))


def _wait(api: "Api") -> RekeyProgress:
    """Wait until the re-encryption ends, report its progress meanwhile, and return its final progress."""
    deadline.wait_out(api)
    reported = ""
    report_at = time.monotonic() + _REPORT_SECONDS
    while (progress := api.get("/rekey", RekeyProgress)).status == "running":
        line = f"{progress.doing}: {progress.done:,} checked, {progress.encrypted:,} re-encrypted so far"
        if time.monotonic() >= report_at and line != reported:
            output.note(line)
            reported, report_at = line, time.monotonic() + _REPORT_SECONDS
        time.sleep(POLL_SECONDS)
    return progress


def _print_rekey(progress: RekeyProgress) -> None:
    """Print the result and what the operator should do next."""
    key, encrypted = progress.key_id, f"{progress.encrypted:,}"
    match progress.status:
        case "finished":
            click.echo(f"finished: {encrypted} ciphertexts were re-encrypted; only the key {key} is needed now")
            click.echo("older keys can be removed from the master key file; then restart the server")
        case "running":
            click.echo(f"running under key {key}: `terracrew server rekey` shows the progress")
        case "stopped":
            click.echo(f"stopped after {encrypted}: keep all keys, and run `terracrew server rekey` to continue")
        case "none":
            click.echo("nothing has been re-encrypted yet")
        case _:
            raise TerracrewError(
                f"{progress.failed:,} ciphertexts could not be re-encrypted; the first: {progress.problem}",
                hint="keep all keys, add the key that the message names to the master key file, restart the server, and run this again",
            )


@click.command("usage")
@output.with_target
def usage(target: Target) -> output.CommandResult:
    """Show what is stored: counts and bytes by kind and by organization, the largest modules, and what retention would free.

    This asks the running server and needs an administrator.
    """
    found = _counted(target, "/server/usage", Usage)

    def show() -> None:
        rows = [(kind, each.count, size(each.bytes)) for kind, each in found.kinds.items()]
        output.table(("STORED", "COUNT", "SIZE"), rows, empty="nothing is stored")
        click.echo(f"The database has a size of {size(found.database_bytes)}.\n")
        organizations = [
            (each.name, size(each.archive_bytes), size(each.log_bytes), size(each.state_bytes), each.queued_jobs)
            for each in found.organizations
        ]
        columns = ("ORGANIZATION", "ARCHIVES", "LOGS", "STATES", "QUEUED JOBS")
        output.table(columns, organizations, empty="no organization has any")
        click.echo()
        largest = [(each.path, size(each.bytes)) for each in found.largest_modules]
        output.table(("LARGEST MODULES", "LOGS AND STATES"), largest, empty="no module has logs or states")
        click.echo()
        _show_preview(found.reclaimable)
        for name, run in found.last_runs.items():
            removed = ", ".join(f"{each.count} {kind} ({size(each.bytes)})" for kind, each in run.removed.items())
            click.echo(
                f"{retention_words.CHORES.get(name, name)} last ran {output.age(run.finished_at)} and removed {removed or 'nothing'}."
            )

    return output.CommandResult(found, show)


@click.command("retention")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@output.with_target
def retention(target: Target, dry_run: bool) -> output.CommandResult:
    """Show what retention would remove. The server removes it once an hour; this command removes nothing.

    The server's --retain-… settings define how long each kind is kept (see `terracrew server --help`).
    """
    if not dry_run:
        raise click.UsageError("retention runs on the server by itself: add --dry-run to see what it would remove")
    found = _counted(target, "/server/retention", Preview)
    return output.CommandResult(found, lambda: _show_preview(found))


def _show_preview(found: Preview) -> None:
    kept = retention_words.kept(**msgspec.structs.asdict(found.policy))
    rows = [(kind, kept.get(kind), each.count, size(each.bytes)) for kind, each in found.retention.items()]
    rows += [
        (f"orphans: {kind}", retention_words.ORPHANS_KEPT, each.count, size(each.bytes))
        for kind, each in found.orphans.items()
    ]
    output.table(("RETENTION WOULD REMOVE", "KEPT", "COUNT", "SIZE"), rows, empty="retention would remove nothing")


def _counted(target: Target, path: str, kind: type[T]) -> T:
    """Poll until the server has finished counting, and print what it is counting meanwhile."""
    api, reported = target.api(), ""
    while counting := (answer := api.get(path)).get("counting"):  # else it is what was asked for
        if not reported:
            deadline.wait_out(api)
        if counting != reported:
            reported = counting
            output.note(f"counting {reported} …")
        time.sleep(POLL_SECONDS)
    return msgspec.convert(answer, kind)
