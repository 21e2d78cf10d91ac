"""`terracrew drift`: what was changed outside of the engine, checks, mutes, and the way back to the configuration."""

from datetime import UTC, datetime, timedelta

import click

from terracrew.api.drift import (
    AskDriftCheck,
    AskedDriftCheck,
    DriftMute,
    ModuleDrift,
    ModuleDriftView,
    NewMute,
    Reconcile,
)
from terracrew.api.jobs import Job
from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.job.run import WaitOptions, report_made, waiting_options
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import NotFound
from terracrew.wording import drift_words

_module = click.argument("module", shell_complete=name_completion.modules)
MAX_DAYS = 366


@click.group("drift", cls=LazyGroup)
def drift() -> None:
    """Find what was changed outside of the engine. People learn of what differs from the check before."""


@drift.command("list", epilog=output.examples("terracrew drift list", "terracrew drift list platform --all"))
@click.argument("place", required=False, default="", shell_complete=name_completion.groups)
@click.option("--all", "only", flag_value="all", help="All modules that were checked.")
@click.option("--failed", "only", flag_value="failed", help="Those whose last check found nothing out.")
@click.option("--muted", "only", flag_value="muted", help="Those in which an address is muted.")
@output.with_target
def list_drift(target: Target, place: str, only: str | None) -> output.CommandResult:
    """List the modules with drift, in and below the group PLACE or everywhere."""
    items = list(target.api().list("/drift", ModuleDrift, place=place, only=only or "drifted"))
    rows = [
        (
            each.path,
            each.drifted,
            drift_words.counted(each.new, each.changed, each.gone),
            each.muted or "",
            output.age(each.drifted_since),
            output.age(each.checked_at),
        )
        for each in items
    ]
    notes = [f"{each.path}: {each.problem}" for each in items if each.problem]
    columns = ("MODULE", "DIFFER", "LAST CHECK", "MUTED", "SINCE", "CHECKED")
    empty = "no module has drift" if only is None else "no such module"
    return output.listing(items, columns, rows, empty=empty, notes=notes)


@drift.command("show", epilog=output.examples("terracrew drift show platform/network"))
@_module
@output.with_target
def show(target: Target, module: str) -> output.CommandResult:
    """List what differs in MODULE, since when, and what is muted."""
    found = target.api().get(f"/drift/modules/{segment(module)}", ModuleDriftView)
    is_outside = drift_words.is_outside(found.results)
    rows = [
        (
            each.address,
            drift_words.change(each.action, is_outside=is_outside),
            output.age(each.since),
            f"until {each.mute.until:%Y-%m-%d}: {each.mute.reason}" if each.mute else "",
        )
        for each in found.items
    ]
    notes = [found.problem] if found.problem else []
    if found.check is not None:
        notes.append("a check runs" if found.check.job_id else f"a check is due {output.age(found.check.due_at)}")
    checked = f"checked {output.age(found.checked_at)}" if found.checked_at else "never checked"
    return output.listing(
        found, ("ADDRESS", "CHANGE", "SINCE", "MUTED"), rows, empty=f"nothing differs; {checked}", notes=notes
    )


@drift.command(
    "check",
    epilog=output.examples("terracrew drift check platform/network", "terracrew drift check platform --full"),
)
@click.argument("place", shell_complete=name_completion.places)
@click.option(
    "--full",
    is_flag=True,
    help="Make a full plan, which also has changes of the configuration that nobody has applied.",
)
@output.with_target
def check(target: Target, place: str, full: bool) -> output.CommandResult:
    """Have the module PLACE, or all modules of this group, checked as soon as none of their jobs runs."""
    asked = target.api().post("/drift/checks", AskDriftCheck(place, is_refresh_only=not full), AskedDriftCheck)
    count = f"{asked.modules:,} drift {'check' if asked.modules == 1 else 'checks'}"
    return output.message(asked, f"asked for {count}", "`terracrew drift list` shows what they find")


@drift.command("reconcile", epilog=output.examples("terracrew drift reconcile platform/network --follow"))
@_module
@waiting_options
@output.with_target
def reconcile(target: Target, module: str, waiting: WaitOptions) -> output.CommandResult:
    """Apply MODULE, with all of its approvals, so that what exists is again what its configuration says, and check it again."""
    return report_made(target, target.api().post("/drift/reconcile", Reconcile(module), Job), waiting)


@drift.command(
    "mute",
    epilog=output.examples(
        "terracrew drift mute platform/network aws_vpc.main --days 14 \\",
        "    --reason 'tags by the cost team'",
    ),
)
@_module
@click.argument("address")
@click.option("--reason", required=True, help="Why this drift is expected.")
@click.option("--days", type=click.IntRange(1, MAX_DAYS), default=30, help="When it ends [after 30 days].")
@output.with_target
def mute(target: Target, module: str, address: str, reason: str, days: int) -> output.CommandResult:
    """Tell nothing about ADDRESS of MODULE for some time. If it still differs then, it is told again."""
    new = NewMute(module, address, reason, datetime.now(UTC) + timedelta(days=days))
    made = target.api().post("/drift/mutes", new, DriftMute)
    return output.message(made, f"muted {made.address} of {module} until {made.until:%Y-%m-%d}")


@drift.command("unmute", epilog=output.examples("terracrew drift unmute platform/network aws_vpc.main"))
@_module
@click.argument("address")
@output.with_target
def unmute(target: Target, module: str, address: str) -> output.CommandResult:
    """End the mute of ADDRESS of MODULE before its time."""
    api = target.api()
    found = api.get(f"/drift/modules/{segment(module)}", ModuleDriftView)
    known = next((each for each in found.mutes if each.address == address), None)
    if known is None:
        muted = ", ".join(each.address for each in found.mutes[:10])
        raise NotFound(f"{address[:200]!r} of {module} is not muted" + (f": muted are {muted}" if muted else ""))
    api.delete(f"/drift/mutes/{known.id}")
    return output.message({"deleted": known.id}, f"{address} of {module} is told again")
