"""`terracrew job cancel` and `update`: ask one job or all matching jobs to end, and change a job that waits."""

from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.job import status_line
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid

if TYPE_CHECKING:
    from terracrew.client.http import Api
from terracrew.cli.arguments import values


@click.command("cancel")
@click.argument("job_id", metavar="[JOB]", required=False, shell_complete=name_completion.jobs)
@click.option("--all", "every", is_flag=True, help="All jobs that have not ended and that you may cancel.")
@click.option(
    "--module", metavar="PATH", shell_complete=name_completion.modules, help="With --all: only jobs of this module."
)
@click.option(
    "--group",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="With --all: only jobs of modules below this group.",
)
@click.option(
    "--status",
    type=click.Choice(status_line.STATUSES[:4], case_sensitive=False),
    help="With --all: only jobs with this status.",
)
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@click.option(
    "--mode",
    type=click.Choice(["after_step", "interrupt", "kill"]),
    default="interrupt",
    show_default=True,
    help="Stop after the current step (a change with its outputs); interrupt the engine like Ctrl-C; or kill it at once, which may "
    "lose state.",
)
@output.json_option
@pass_target
def cancel(
    target: Target,
    job_id: str | None,
    every: bool,
    module: str | None,
    group: str | None,
    status: str | None,
    yes: bool,
    mode: str,
) -> output.CommandResult:
    """Ask the job JOB to end, or with --all every job that matches."""
    filters = {"module": module, "group": group, "status": status}
    if every == (job_id is not None) or (any(filters.values()) and not every):
        raise Invalid("name a job, or give --all with or without --module, --group and --status")
    if job_id is None:
        return _cancel_all(target.api(), filters, mode, yes)
    found = target.api().post(f"/jobs/{segment(job_id)}/cancel", {"mode": mode})
    return output.message(
        found,
        status_line.describe(found)
        if found["status"] in status_line.EXIT_CODES
        else f"Canceling job {found['number']}",
    )


def _cancel_all(api: "Api", filters: dict[str, str | None], mode: str, yes: bool) -> output.CommandResult:
    """Cancel the jobs that match now. Jobs that are queued after the question was asked are not canceled."""
    body: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    counted = api.post("/jobs/cancel", body | {"count_only": True})
    matching: int = counted["matching"]
    if matching and not yes:
        output.ask(f"Cancel {_words(matching, filters)}?", "No job was canceled.")
    ended = asked = seen = 0
    after = "" if matching else None
    while after is not None:
        done = api.post("/jobs/cancel", body | {"mode": mode, "up_to": counted["up_to"], "after": after})
        ended, asked, seen = ended + done["ended"], asked + done["asked"], seen + done["matching"]
        after = done["next"]
        if after is not None and not output.wants_json():
            output.note(f"{seen} of {matching}")
    words = f"canceled {ended} jobs" + (f"; requested the cancellation of {asked} more" if asked else "")
    value = {"matching": matching, "ended": ended, "asked": asked}
    return output.message(value, words if matching else "no job matches")


def _words(count: int, filters: dict[str, str | None]) -> str:
    parts = [f"{count} job" + ("" if count == 1 else "s")]
    if filters.get("status"):
        parts.append(f"with status {filters['status']}")
    parts += [f"of the {noun} {filters[noun]}" for noun in ("module", "group") if filters.get(noun)]
    return " ".join(parts)


@click.command("update")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--priority",
    type=values.PRIORITIES,
    required=True,
    help="A job with a higher priority runs first: -100 to 100. Above 10, you must be an owner of the module.",
)
@output.json_option
@pass_target
def update(target: Target, job_id: str, priority: int) -> output.CommandResult:
    """Change the priority of the job JOB, which must be queued or wait for an approval."""
    made = target.api().patch(f"/jobs/{segment(job_id)}", {"priority": priority})
    return output.message(made, f"job {made['number']} has the priority {made['priority']}")
