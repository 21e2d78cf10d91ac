"""`terracrew job`: lists and shows jobs, their inputs and outputs; the other files have its other commands."""

import click

from terracrew.api.inputs import JobInputs
from terracrew.api.job_views import JobListed, JobView
from terracrew.api.jobs import JobStatus
from terracrew.api.pages import Page
from terracrew.api.states import JobOutputs
from terracrew.cli.arguments import name_completion, options, values
from terracrew.cli.commands import input as inputs
from terracrew.cli.commands.job import approval, cancel, diff, follow, logs, lost_resources, render, run
from terracrew.cli.commands.module import module as modules
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.protocol.spec import JobType


@click.command(
    "list",
    epilog=output.examples(
        "terracrew job list --active",
        "terracrew job list --status AWAITING_APPROVAL",
        "terracrew job list --module platform/network --limit 5 --json",
    ),
)
@click.option(
    "--status",
    type=click.Choice(JobStatus, case_sensitive=False),
    metavar="STATUS",
    help=f"Only jobs with this status: {', '.join(JobStatus).lower()}.",
)
@options.module("Only jobs of this module.")
@click.option("--active", is_flag=True, help="Only jobs that have not ended.")
@click.option(
    "--type",
    "job_type",
    type=click.Choice(JobType, case_sensitive=False),
    metavar="TYPE",
    help="Only jobs of this type: plan, apply, destroy.",
)
@click.option("--who", metavar="NAME", shell_complete=name_completion.users, help="Only jobs that NAME has queued.")
@click.option("--runner", metavar="PATH", shell_complete=name_completion.runners, help="Only jobs of this runner.")
@click.option("--since", type=values.Moment(), metavar="WHEN", help="Only jobs from then on: 7d, 2026-11-16.")
@click.option("--until", type=values.Moment(), metavar="WHEN", help="Only jobs from before that time.")
@options.limit(200, 50, "The number of jobs to list.")
@output.with_target
def list_jobs(
    target: Target,
    status: JobStatus | None,
    module: str | None,
    active: bool,
    job_type: JobType | None,
    who: str | None,
    runner: str | None,
    since: str | None,
    until: str | None,
    limit: int,
) -> output.CommandResult:
    """List jobs, newest first."""
    wanted = {"type": job_type, "who": who, "runner": runner, "since": since, "until": until}
    wanted |= {"status": status, "module": module, "active": active or None, "limit": limit}
    items = target.api().get("/jobs", Page[JobListed], **wanted).items
    rows = [
        (
            f"#{each.number}",
            output.job_type(each),
            each.status,
            each.module_path,
            each.runner_path or "",
            output.age(each.created_at),
            output.duration(each.created_at, each.finished_at),
            follow.why(each),
        )
        for each in items
    ]
    columns = ("JOB", "TYPE", "STATUS", "MODULE", "RUNNER", "CREATED", "TOOK", "WHY")
    empty = "no jobs: `terracrew job run MODULE`"
    if not output.is_narrow():
        return output.listing(items, columns, rows, empty=empty)
    notes = [f"{number}: {why}" for number, *_, why in rows if why]
    return output.listing(items, columns[:-1], [row[:-1] for row in rows], empty=empty, notes=notes)


@click.command(
    "show",
    epilog=output.examples(
        "terracrew job show 12",
        "terracrew job show 12 --diff --search subnet",
    ),
)
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--diff", "is_diff", is_flag=True, help="Show what its plan changes in each resource, by attribute.")
@click.option("--search", metavar="TEXT", default="", help="With --diff: only resources that contain this text.")
@options.limit(diff.MAX_RESOURCES, diff.DEFAULT_COUNT, "With --diff: the number of resources to show.")
@output.with_target
def show_job(target: Target, job_id: str, is_diff: bool, search: str, limit: int) -> output.CommandResult:
    """Show the job JOB: why it waits, its steps and attempts, its plan, who holds the lock."""
    api = target.api()
    if search and not is_diff:
        raise click.UsageError("--search looks through the plan: use it together with --diff")
    found = api.get(f"/jobs/{segment(job_id)}", JobView)
    if is_diff:
        shown = diff.read(api, found.id, search=search, limit=limit)
        return output.CommandResult(shown, lambda: diff.show(shown, found))
    return output.CommandResult(found, lambda: render.job(api, found))


@click.command("inputs")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--attempt", type=click.IntRange(min=1), help="An earlier attempt than the last one.")
@output.with_target
def job_inputs(target: Target, job_id: str, attempt: int | None) -> output.CommandResult:
    """Show which inputs the job JOB was given, where each came from, and whether it has changed since."""
    found = target.api().get(f"/jobs/{segment(job_id)}/inputs", JobInputs, attempt=attempt)
    rows = [
        (
            inputs.name_of(each),
            each.kind,
            inputs.origin(each),
            each.version or "",
            inputs.who(each),
            "" if each.is_current else "changed since",
        )
        for each in found.items
    ]
    empty = f"job {job_id} was given no inputs, or has not started"
    return output.listing(found, ("NAME", "KIND", "FROM", "VERSION", "SET", "NOW"), rows, empty=empty)


@click.command("outputs")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.argument("name", required=False)
@click.option("--sensitive", is_flag=True, help="Also show sensitive values. This is recorded in the audit log.")
@output.with_target
def job_outputs(target: Target, job_id: str, name: str | None, sensitive: bool) -> output.CommandResult:
    """Print the outputs that the job JOB has read after its change, or the one called NAME."""
    found = target.api().get(f"/jobs/{segment(job_id)}/outputs", JobOutputs, sensitive=sensitive or None)
    return modules.show_outputs(found, f"job {job_id}", name, sensitive=sensitive)


@click.group(cls=LazyGroup)
def job() -> None:
    """Run jobs, follow their logs, decide about their plans, cancel them.

    A command that waits for a job exits with 0 if it SUCCEEDED, 10 if it FAILED, 11 if it was CANCELED, 12 if DECLINED,
    13 if --timeout came first, and 14 if --stop-at-approval was given and the plan waits for approval.
    """


for _command in (run.run, run.rerun, run.wait, list_jobs, show_job, logs.logs, cancel.update, cancel.cancel):
    job.add_command(_command)
for _command in (
    approval.apply,
    approval.approve,
    approval.decline,
    approval.replan,
    approval.gone,
    job_inputs,
    job_outputs,
):
    job.add_command(_command)
job.add_command(lost_resources.lost_resources)
