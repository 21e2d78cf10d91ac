"""`terracrew fleet-job`: jobs that deploy, update and remove cloud-hosted runners, and test connections to clouds."""

import sys
import time
from typing import TYPE_CHECKING

import click
import msgspec

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, FleetJobView, FleetLine, FleetStep
from terracrew.api.pages import Page
from terracrew.cli.arguments import name_completion, options
from terracrew.cli.connection import deadline as outages
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.wording.escapes import plain

if TYPE_CHECKING:
    from terracrew.client.http import Api

TYPES = [each.value for each in FleetJobType]
STATUSES = [each.value for each in FleetJobStatus]
EXIT_CODES = {"SUCCEEDED": 0, "FAILED": 10, "CANCELED": 11}
_MARKS = {"done": "✓", "failed": "✗", "running": "…", "pending": "·"}
_job = click.argument("job_id", metavar="JOB", shell_complete=name_completion.fleet_jobs)


@click.group("fleet-job")
def fleet_job() -> None:
    """Show and cancel the jobs that deploy and remove cloud-hosted runners."""


@fleet_job.command(
    "list",
    epilog=output.examples(
        "terracrew fleet-job list --status FAILED",
        "terracrew fleet-job list --type DEPLOY_WORKER --limit 5 --json",
    ),
)
@click.option("--type", "job_type", type=click.Choice(TYPES, case_sensitive=False), help="Only jobs of this type.")
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only jobs with this status.")
@click.option("--target", "target_id", metavar="ID", help="Only jobs of the runner or cloud identity with this id.")
@options.limit(200, 50, "The number of jobs to list.")
@output.with_target
def list_fleet_jobs(
    target: Target, job_type: str | None, status: str | None, target_id: str | None, limit: int
) -> output.CommandResult:
    """List jobs of the fleet, newest first."""
    query = {"type": job_type, "status": status, "target": target_id, "limit": limit}
    items = target.api().get("/fleet-jobs", Page[FleetJob], **query).items
    rows = [
        (
            f"#{each.number}",
            each.type,
            each.status,
            each.target_name,
            output.age(each.created_at),
            output.duration(each.created_at, each.finished_at),
            plain(each.error),
        )
        for each in items
    ]
    columns = ("JOB", "TYPE", "STATUS", "OF", "CREATED", "TOOK", "WHY")
    return output.listing(
        items, columns, rows, empty="no jobs of the fleet: `terracrew runner deploy NAME --identity PATH`"
    )


@fleet_job.command("show", epilog=output.examples("terracrew fleet-job show 12"))
@_job
@output.with_target
def show(target: Target, job_id: str) -> output.CommandResult:
    """Show the job JOB, its steps and what each of them made."""
    found = target.api().get(f"/fleet-jobs/{segment(job_id)}", FleetJobView)

    def show() -> None:
        output.facts(
            [
                ("job", f"#{found.number} ({found.id})"),
                ("type", found.type),
                ("of", found.target_name),
                ("status", found.status),
                ("why", plain(found.error)),
                ("created", f"{output.age(found.created_at)} by {found.created_by_name}"),
                ("attempt", found.attempt if found.attempt > 1 else None),
            ]
        )
        for step in found.steps:
            click.echo(_step(step))

    return output.CommandResult(found, show)


@fleet_job.command(
    "logs", epilog=output.examples("terracrew fleet-job logs -f 12", "terracrew fleet-job logs 12 --json")
)
@_job
@click.option("--follow", "-f", "following", is_flag=True, help="Continue until the job ends; exit with its exit code.")
@options.timeout
@output.with_target
def logs(target: Target, job_id: str, following: bool, timeout: float | None) -> int:
    """Print the log of the job JOB. With --json, each line is an object: {attempt, number, at, text}."""
    api, as_json = target.api(), output.wants_json()
    if following:
        with deadline(timeout, f"job {job_id}"):
            found = follow(api, job_id, as_json=as_json)
        _print_end(found)
        return EXIT_CODES[found.status]
    api.download(f"/fleet-jobs/{segment(job_id)}/log", sys.stdout.buffer, format="events" if as_json else "text")
    return 0


@fleet_job.command("wait", epilog=output.examples("terracrew fleet-job wait 12 --timeout 600"))
@_job
@options.timeout
@output.with_target
def wait(target: Target, job_id: str, timeout: float | None) -> output.CommandResult:
    """Wait until the job JOB has ended, and exit with its exit code."""
    with deadline(timeout, f"job {job_id}"):
        found = follow(target.api(), job_id, is_silent=True)
    _print_end(found)
    return output.CommandResult(found, lambda: None, EXIT_CODES[found.status])


@fleet_job.command("cancel", epilog=output.examples("terracrew fleet-job cancel 12"))
@_job
@output.with_target
def cancel(target: Target, job_id: str) -> output.CommandResult:
    """Cancel the job JOB. One that runs first removes what it has made."""
    found = target.api().post(f"/fleet-jobs/{segment(job_id)}/cancel", {}, FleetJobView)
    is_ended = found.status == "CANCELED"
    words = "canceled" if is_ended else "is being canceled: it removes what it has made, and ends after that"
    return output.message(found, f"job {found.number} {words}")


def follow(api: "Api", job_id: str, *, as_json: bool = False, is_silent: bool = False) -> FleetJobView:
    """Print the log of a job as it grows, and return the job when it has ended."""
    outages.wait_out(api)
    for event in api.events(f"/fleet-jobs/{segment(job_id)}/log/stream"):
        if event.name == "log" and not is_silent:
            for line in msgspec.json.decode(event.data, type=list[FleetLine]):
                click.echo(msgspec.json.encode(line).decode() if as_json else plain(line.text))
        elif event.name == "end":
            break
    return api.get(f"/fleet-jobs/{segment(job_id)}", FleetJobView)


def _print_end(job: FleetJob) -> None:
    colour = "green" if job.status == "SUCCEEDED" else "red"
    words = f"job {job.number} {job.status}" + (f": {plain(job.error)}" if job.error else "")
    click.echo(click.style(words, fg=colour), err=True)


def _step(step: FleetStep) -> str:
    took = output.duration(step.started_at, step.finished_at) if step.finished_at else ""
    parts = [f"{_MARKS[step.status]} {plain(step.words)}", plain(step.detail), plain(step.reference), took]
    line = "  ".join(filter(None, parts))
    return line + (f"\n    {plain(step.remedy)}" if step.remedy else "")


POLL_SECONDS = 0.5
_STEP_MARKS = {"done": ("✓", "green"), "failed": ("✗", "red")}


def follow_steps(api: "Api", job_id: str, *, timeout: float | None = None) -> output.CommandResult:
    """Wait until a job has ended, and return it with its steps. Steps are printed to standard error as they end."""
    outages.wait_out(api)
    printed: set[tuple[int, str]] = set()
    with deadline(timeout, "the job"):
        while not (job := _read(api, job_id, printed)).is_terminal:
            time.sleep(POLL_SECONDS)
    return output.CommandResult(job, lambda: _print_steps_end(job), 0 if job.status == "SUCCEEDED" else 1)


def _read(api: "Api", job_id: str, printed: set[tuple[int, str]]) -> FleetJobView:
    """Return the job as it is now, and print the steps of it that have ended since the last time."""
    job = api.get(f"/fleet-jobs/{job_id}", FleetJobView)
    if not output.wants_json():
        _print_new(job, printed)
    return job


def _print_steps_end(job: FleetJobView) -> None:
    """Print how a job has ended, in one line."""
    failed = sum(step.status == "failed" for step in job.steps)
    passed = sum(step.status == "done" for step in job.steps)
    counts = f"{passed} of {passed + failed} passed" if passed + failed else ""
    words = ", ".join(each for each in (f"{job.type} #{job.number} {job.status}", counts, job.error) if each)
    click.echo(words)


def _print_new(job: FleetJobView, printed: set[tuple[int, str]]) -> None:
    for step in job.steps:
        key = (step.attempt, step.name)
        if step.status in _STEP_MARKS and key not in printed:
            printed.add(key)
            _print_step(step)


def _print_step(step: FleetStep) -> None:
    mark, colour = _STEP_MARKS[step.status]
    proof = step.detail or step.reference
    took = output.duration(step.started_at, step.finished_at)
    text = f"{output.text(step.words)}" + (f": {output.text(proof)}" if proof else "")
    click.echo(f"{click.style(mark, fg=colour)} {text}  {click.style(took, dim=True)}", err=True)
    if step.remedy:
        click.echo(f"  {output.broken(output.text(step.remedy), 2)}", err=True)
