"""`terracrew job cancel` and `update`: ask one job or all matching jobs to end, and change a job that waits."""

from typing import TYPE_CHECKING, get_args

import click
from msgspec.structs import replace

from terracrew.api.jobs import CanceledMany, CancelMany, CancelRequest, Job, JobChange, OpenStatus
from terracrew.cli.arguments import name_completion, options, values
from terracrew.cli.commands.job import follow
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid
from terracrew.protocol.messages import CancelMode

if TYPE_CHECKING:
    from terracrew.client.http import Api


@click.command("cancel")
@click.argument("job_id", metavar="[JOB]", required=False, shell_complete=name_completion.jobs)
@click.option("--all", "every", is_flag=True, help="All jobs that have not ended and that you may cancel.")
@options.module("With --all: only jobs of this module.")
@options.group("With --all: only jobs of modules below this group.")
@click.option(
    "--status",
    type=click.Choice(get_args(OpenStatus), case_sensitive=False),
    help="With --all: only jobs with this status.",
)
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@click.option(
    "--mode",
    type=click.Choice(get_args(CancelMode)),
    default="interrupt",
    show_default=True,
    help="Stop after the current step (a change with its outputs); interrupt the engine like Ctrl-C; or kill it at once, which may "
    "lose state.",
)
@output.with_target
def cancel(
    target: Target,
    job_id: str | None,
    every: bool,
    module: str | None,
    group: str | None,
    status: OpenStatus | None,
    yes: bool,
    mode: CancelMode,
) -> output.CommandResult:
    """Ask the job JOB to end, or with --all every job that matches."""
    if every == (job_id is not None) or (not every and (module or group or status)):
        raise Invalid("name a job, or give --all with or without --module, --group and --status")
    if job_id is None:
        return _cancel_all(target.api(), CancelMany(mode=mode, module=module, group=group, status=status), yes)
    found = target.api().post(f"/jobs/{segment(job_id)}/cancel", CancelRequest(mode), Job)
    return output.message(found, follow.describe(found) if found.is_terminal else f"Canceling job {found.number}")


def _cancel_all(api: "Api", wanted: CancelMany, yes: bool) -> output.CommandResult:
    """Cancel the jobs that match now. Jobs that are queued after the question was asked are not canceled."""
    counted = api.post("/jobs/cancel", replace(wanted, count_only=True), CanceledMany)
    matching = counted.matching
    if matching and not yes:
        output.ask(f"Cancel {_words(matching, wanted)}?", "No job was canceled.")
    ended = asked = seen = 0
    after = "" if matching else None
    while after is not None:
        done = api.post("/jobs/cancel", replace(wanted, up_to=counted.up_to, after=after), CanceledMany)
        ended, asked, seen = ended + done.ended, asked + done.asked, seen + done.matching
        after = done.next
        if after is not None and not output.wants_json():
            output.note(f"{seen} of {matching}")
    words = f"canceled {ended} jobs" + (f"; requested the cancellation of {asked} more" if asked else "")
    value = {"matching": matching, "ended": ended, "asked": asked}
    return output.message(value, words if matching else "no job matches")


def _words(count: int, wanted: CancelMany) -> str:
    parts = [f"{count} job" + ("" if count == 1 else "s")]
    parts += [f"with status {wanted.status}"] if wanted.status else []
    parts += [f"of the {noun} {path}" for noun in ("module", "group") if (path := getattr(wanted, noun))]
    return " ".join(parts)


@click.command("update")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--priority",
    type=values.PRIORITIES,
    required=True,
    help="A job with a higher priority runs first: -100 to 100. Above 10, you must be an owner of the module.",
)
@output.with_target
def update(target: Target, job_id: str, priority: int) -> output.CommandResult:
    """Change the priority of the job JOB, which must be queued or wait for an approval."""
    made = target.api().patch(f"/jobs/{segment(job_id)}", JobChange(priority), Job)
    return output.message(made, f"job {made.number} has the priority {made.priority}")
