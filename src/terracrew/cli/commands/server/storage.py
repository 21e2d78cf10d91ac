"""`terracrew server usage` and `terracrew server retention`: show what is stored, and what would be removed."""

import time
from typing import Any

import click

from terracrew.cli.connection import deadline
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output

POLL_SECONDS = 0.5


@click.command("usage")
@output.json_option
@pass_target
def usage(target: Target) -> output.CommandResult:
    """Show what is stored: counts and bytes by kind and by organization, the largest modules, and what retention would free.

    This asks the running server and needs an administrator.
    """
    found = _counted(target, "/server/usage")

    def show() -> None:
        rows = [(kind, each["count"], size(each["bytes"])) for kind, each in found["kinds"].items()]
        output.table(("STORED", "COUNT", "SIZE"), rows, empty="nothing is stored")
        click.echo(f"The database has a size of {size(found['database_bytes'])}.\n")
        organizations = [
            (
                each["name"],
                size(each["archive_bytes"]),
                size(each["log_bytes"]),
                size(each["state_bytes"]),
                each["queued_jobs"],
            )
            for each in found["organizations"]
        ]
        output.table(
            ("ORGANIZATION", "ARCHIVES", "LOGS", "STATES", "QUEUED JOBS"),
            organizations,
            empty="no organization has any",
        )
        click.echo()
        largest = [(each["path"], size(each["bytes"])) for each in found["largest_modules"]]
        output.table(("LARGEST MODULES", "LOGS AND STATES"), largest, empty="no module has logs or states")
        click.echo()
        _show_preview(found["reclaimable"])
        for name, run in found.get("last_runs", {}).items():
            what = {"pass": "Retention", "sweep": "The sweep of orphans"}.get(name, name)
            removed = ", ".join(
                f"{each['count']} {kind} ({size(each['bytes'])})" for kind, each in run["removed"].items()
            )
            click.echo(f"{what} last ran {output.age(run['finished_at'])} and removed {removed or 'nothing'}.")

    return output.CommandResult(found, show)


@click.command("retention")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@output.json_option
@pass_target
def retention(target: Target, dry_run: bool) -> output.CommandResult:
    """Show what retention would remove. The server removes it once an hour; this command removes nothing.

    The server's --retain-… settings define how long each kind is kept (see `terracrew server --help`).
    """
    if not dry_run:
        raise click.UsageError("retention runs on the server by itself: add --dry-run to see what it would remove")
    found = _counted(target, "/server/retention")
    return output.CommandResult(found, lambda: _show_preview(found))


def _show_preview(found: dict[str, Any]) -> None:
    policy = found["policy"]
    kept = {
        "logs": _days(policy["logs_days"]),
        "states": f"{_days(policy['states_days'])}, at least {policy['states_count']} of each module",
        "plans": "while they are needed" if not policy["plans_days"] else f"for {policy['plans_days']:g} days",
        "archives": _days(policy["archives_days"]),
        "audit": _days(policy["audit_days"]),
    }
    rows = [(kind, kept.get(kind), each["count"], size(each["bytes"])) for kind, each in found["retention"].items()]
    rows += [
        (f"orphans: {kind}", "for a day", each["count"], size(each["bytes"])) for kind, each in found["orphans"].items()
    ]
    output.table(("RETENTION WOULD REMOVE", "KEPT", "COUNT", "SIZE"), rows, empty="retention would remove nothing")


def _counted(target: Target, path: str) -> Any:
    """Poll until the server has finished counting, and print what it is counting meanwhile."""
    api, reported = target.api(), ""
    while "counting" in (found := api.get(path)):
        if not reported:
            deadline.wait_out(api)
        if found["counting"] != reported:
            reported = found["counting"]
            output.note(f"counting {reported} …")
        time.sleep(POLL_SECONDS)
    return found


def _days(days: float | None) -> str:
    return "forever" if days is None else f"for {days:g} days"


def size(count: float) -> str:
    """Write a number of bytes in the largest unit that leaves a number of at least one."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
