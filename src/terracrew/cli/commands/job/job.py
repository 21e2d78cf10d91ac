"""`terracrew job`: run jobs, follow their logs, decide about their plans, cancel them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments import source as sources
from terracrew.cli.commands.job import approval, bulk_cancel, destroy_confirmation, follow, render
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid

if TYPE_CHECKING:
    from terracrew.client.http import Api

STATUSES = ["QUEUED", "CLAIMED", "PROCESSING", "AWAITING_APPROVAL", *follow.EXIT_CODES]
_timeout = click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop waiting after this time (exit code 13)."
)
_stop = click.option("--stop-at-approval", is_flag=True, help="Exit with 14 when the plan waits for approval.")
_color = click.option("--color/--no-color", default=None, help="Keep the log's colours; by default on a terminal only.")


@click.group()
def job() -> None:
    """Run jobs, follow their logs, decide about their plans, cancel them.

    A command that waits for a job exits with 0 if it SUCCEEDED, 10 if it FAILED, 11 if it was CANCELED, 12 if DECLINED,
    13 if --timeout came first, and 14 if --stop-at-approval was given and the plan waits for approval.
    """


for _command in (approval.approve, approval.decline, approval.replan, approval.gone):
    job.add_command(_command)


@job.command("run")
@click.argument("module", shell_complete=name_completion.modules)
@click.option("--plan", "is_plan", is_flag=True, help="Only show what would change (the default).")
@click.option("--apply", "is_apply", is_flag=True, help="Plan and apply.")
@click.option(
    "--destroy",
    "is_destroy",
    is_flag=True,
    help="Destroy everything that the module manages. With --plan: only show what it would destroy.",
)
@click.option("--yes", is_flag=True, help="With --destroy: do not ask. Required without a terminal.")
@click.option(
    "--approval", is_flag=True, help="Wait for a person to approve the plan, even if the module does not require it."
)
@click.option("--follow", "-f", "following", is_flag=True, help="Print its log until it ends.")
@click.option("--wait", "waiting", is_flag=True, help="Wait until it ends, without the log.")
@click.option("--priority", type=int, help="A job with a higher priority runs first.")
@click.option("--idempotency-key", metavar="KEY", help="Repeated calls with the same key return the same job.")
@sources.source_options
@_stop
@_timeout
@_color
@output.json_option
@pass_target
def run(
    target: Target,
    module: str,
    is_plan: bool,
    is_apply: bool,
    is_destroy: bool,
    yes: bool,
    approval: bool,
    following: bool,
    waiting: bool,
    priority: int | None,
    idempotency_key: str | None,
    folder: Path | None,
    local_path: str | None,
    subdirectory: str,
    stop_at_approval: bool,
    timeout: float | None,
    color: bool | None,
    as_json: bool,
) -> int:
    """Queue a job for MODULE. With --from, the job uses that folder; the module keeps its own source."""
    from uuid import uuid4

    from terracrew.client.http import segment

    body = destroy_confirmation.job_type(is_plan, is_apply, is_destroy)
    api = target.api()
    if body["type"] == "DESTROY":
        destroy_confirmation.confirm(api, module, yes)
    if priority is not None:
        body["priority"] = priority
    if approval:
        body["needs_approval"] = True
    if found := sources.source(api, folder, local_path, subdirectory):
        body["source"] = found
    # With a key, a request whose answer was lost can be repeated and still creates one job only.
    headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
    made = api.post(f"/modules/{segment(module)}/jobs", body, headers)
    if not following and not waiting:
        if as_json:
            output.as_json(made)
        else:
            click.echo(made["number"])
            output.note(f"job {made['number']} is {made['status']}: {_page(api, made)}")
            output.note(f"its log: terracrew job logs -f {made['number']}")
        return 0
    if not as_json:
        output.note(f"job {made['number']}: {_page(api, made)}")
    return _until_end(target, made["id"], following and not as_json, timeout, color, as_json, stop_at_approval)


@job.command("list")
@click.option("--status", type=click.Choice(STATUSES, case_sensitive=False), help="Only jobs with this status.")
@click.option("--module", metavar="PATH", shell_complete=name_completion.modules, help="Only jobs of this module.")
@click.option("--active", is_flag=True, help="Only jobs that have not ended.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="The number of jobs to list.")
@output.json_option
@pass_target
def list_jobs(target: Target, status: str | None, module: str | None, active: bool, limit: int, as_json: bool) -> None:
    """List jobs, newest first."""
    page = target.api().get("/jobs", status=status, module=module, active=active or None, limit=limit)
    items = page["items"]
    if as_json:
        return output.as_json(items)
    rows = [
        (
            f"#{i['number']}",
            output.job_type(i),
            i["status"],
            i["module_path"],
            output.age(i["created_at"]),
            output.duration(i.get("started_at"), i.get("finished_at")),
            follow.why(i),
        )
        for i in items
    ]
    columns = ("JOB", "TYPE", "STATUS", "MODULE", "CREATED", "TOOK", "WHY")
    empty = "no jobs: `terracrew job run MODULE`"
    if not output.is_narrow():
        return output.table(columns, rows, empty=empty)
    output.table(columns[:-1], [row[:-1] for row in rows], empty=empty)
    for number, *_, why in rows:
        if why:
            output.note(f"{number}: {why}")
    return None


@job.command("show")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@output.json_option
@pass_target
def show_job(target: Target, job_id: str, as_json: bool) -> None:
    """Show the job JOB: why it waits, its steps and attempts, its plan, who holds the lock."""
    from terracrew.client.http import segment

    api = target.api()
    found = api.get(f"/jobs/{segment(job_id)}")
    if as_json:
        return output.as_json(found)
    return render.job(api, found)


@job.command("logs")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--follow", "-f", "following", is_flag=True, help="Continue until the job ends, and exit with its exit code."
)
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the log of this attempt; by default of all attempts.",
)
@_stop
@_timeout
@_color
@output.json_option
@pass_target
def logs(
    target: Target,
    job_id: str,
    following: bool,
    attempt: int | None,
    stop_at_approval: bool,
    timeout: float | None,
    color: bool | None,
    as_json: bool,
) -> int:
    """Print the log of all attempts of the job JOB, and what happened between them. With --json: one event on each line."""
    from terracrew.client.http import segment

    api = target.api()
    if following:
        if as_json:
            raise Invalid("--json and --follow cannot be combined: follow the log as text")
        with follow.deadline(timeout, f"job {job_id}"), follow.log_output(color) as write:
            found = follow.follow(api, job_id, write=write, attempt=attempt, stop_at_approval=stop_at_approval)
        return follow.ended(found, as_json=False)
    place = f"/jobs/{segment(job_id)}/log"
    if as_json:
        with follow.document_output() as stream:
            api.download(place, stream, attempt=attempt, format="events")
    else:
        with follow.text_output(color) as stream:
            api.download(place, stream, attempt=attempt)
    return 0


@job.command("wait")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@_stop
@_timeout
@output.json_option
@pass_target
def wait(target: Target, job_id: str, stop_at_approval: bool, timeout: float | None, as_json: bool) -> int:
    """Wait until the job JOB ends, print why it waits, and exit with its exit code."""
    return _until_end(target, job_id, False, timeout, None, as_json, stop_at_approval)


@job.command("cancel")
@click.argument("job_id", metavar="[JOB]", required=False, shell_complete=name_completion.jobs)
@click.option("--all", "every", is_flag=True, help="All jobs that have not ended and that you may cancel.")
@click.option(
    "--module", metavar="PATH", shell_complete=name_completion.modules, help="With --all: only jobs of this module."
)
@click.option("--group", metavar="PATH", help="With --all: only jobs of modules below this group.")
@click.option(
    "--status", type=click.Choice(STATUSES[:4], case_sensitive=False), help="With --all: only jobs with this status."
)
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@click.option(
    "--mode",
    type=click.Choice(["after_step", "interrupt", "kill"]),
    default="interrupt",
    show_default=True,
    help="Stop after the current step; interrupt the engine like Ctrl-C; or kill it at once, which may lose state.",
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
    as_json: bool,
) -> None:
    """Ask the job JOB to end, or with --all every job that matches."""
    from terracrew.client.http import segment

    filters = {"module": module, "group": group, "status": status}
    if every == (job_id is not None) or (any(filters.values()) and not every):
        raise Invalid("name a job, or give --all with or without --module, --group and --status")
    if job_id is None:
        return bulk_cancel.cancel_all(target.api(), filters, mode, yes, as_json)
    found = target.api().post(f"/jobs/{segment(job_id)}/cancel", {"mode": mode})
    if as_json:
        return output.as_json(found)
    return click.echo(
        follow.describe(found) if found["status"] in follow.EXIT_CODES else f"Canceling job {found['number']}"
    )


@job.command("rerun")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--follow", "-f", "following", is_flag=True, help="Print its log until it ends.")
@click.option("--yes", is_flag=True, help="For a DESTROY job: do not ask. Required without a terminal.")
@output.json_option
@pass_target
def rerun(target: Target, job_id: str, following: bool, yes: bool, as_json: bool) -> int:
    """Queue a new job with the same request as the job JOB."""
    from terracrew.client.http import segment

    api = target.api()
    like = api.get(f"/jobs/{segment(job_id)}")
    if like["type"] == "DESTROY":
        destroy_confirmation.confirm(api, like["module_path"], yes)
    made = api.post(f"/jobs/{segment(job_id)}/rerun")
    if following:
        return _until_end(target, made["id"], not as_json, None, None, as_json)
    if as_json:
        output.as_json(made)
    else:
        click.echo(made["number"])
    return 0


def _page(api: "Api", job: dict[str, Any]) -> str:
    """Return the address of the job in the dashboard."""
    return f"{api.base_url}/dashboard/jobs/{job['number']}"


def _until_end(
    target: Target,
    job_id: str,
    with_log: bool,
    timeout: float | None,
    color: bool | None,
    as_json: bool,
    stop_at_approval: bool = False,
) -> int:
    api = target.api()
    try:
        with follow.deadline(timeout, f"job {job_id}"):
            if with_log:
                with follow.log_output(color) as write:
                    found = follow.follow(api, job_id, write=write, stop_at_approval=stop_at_approval)
            else:
                found = follow.wait(api, job_id, stop_at_approval=stop_at_approval)
    except KeyboardInterrupt:
        output.note(f"\nthe job continues; `terracrew job cancel {job_id}` ends it")
        raise
    code = follow.ended(found, as_json=as_json)
    if not as_json and (command := follow.next_command(found)):
        output.note(f"next: {command}")
    return code
