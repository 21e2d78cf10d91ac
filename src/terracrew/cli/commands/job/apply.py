"""`terracrew job apply`: apply the plan that a PLAN job has made, as it is."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.job import approval, run, status_line
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Conflict
from terracrew.wording import plan_words


@click.command(
    "apply",
    epilog=output.examples(
        "terracrew job run platform/network --follow",
        "terracrew job apply 12 --follow",
    ),
)
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--follow", "-f", "following", is_flag=True, help="Print the log of the new job until it ends.")
@click.option("--wait", "waiting", is_flag=True, help="Wait until the new job ends, without the log.")
@run.stop_option
@run.timeout_option
@run.color_option
@output.json_option
@pass_target
def apply(
    target: Target,
    job_id: str,
    yes: bool,
    following: bool,
    waiting: bool,
    stop_at_approval: bool,
    timeout: float | None,
    color: bool | None,
) -> output.Result:
    """Show the plan of the PLAN job JOB, and apply exactly this plan, by a new job.

    It is refused if the state, the source or an input of the module has changed since the plan was made. If something changes
    later, the new job plans again and waits for an approval.
    """
    from terracrew.client.http import segment

    api = target.api()
    found = api.get(f"/jobs/{segment(job_id)}")
    _require_plan(found)
    approval.show_plan(api, found)
    is_destroy = bool(found.get("is_destroy_plan"))
    if not yes:
        verb = plan_words.apply(found["plan"], is_destroy_plan=is_destroy)
        output.ask(f"{verb} in {found['module_path']}?", "Not applied: no job was queued.")
    made = api.post(f"/jobs/{found['id']}/apply", {"is_destroy": is_destroy})
    return run.report_made(
        target,
        made,
        following=following,
        waiting=waiting,
        timeout=timeout,
        color=color,
        stop_at_approval=stop_at_approval,
    )


def _require_plan(job: dict[str, Any]) -> None:
    """Raise Conflict if there is nothing to show and to apply. The server decides about everything else."""
    if job["type"] != "PLAN":
        raise Conflict(f"job {job['number']} is {output.job_type(job)}, and only the plan of a PLAN can be applied")
    if job["status"] != "SUCCEEDED":
        raise Conflict(f"there is no plan to apply: {status_line.describe(job)}")
    if not plan_words.has_changes(job.get("plan") or {}):
        raise Conflict(f"the plan of job {job['number']} changes nothing, so there is nothing to apply")
    if job.get("taken_by_number"):
        raise Conflict(
            f"job {job['taken_by_number']} has taken this plan already",
            hint=f"`terracrew job show {job['taken_by_number']}` shows what became of it",
        )
    if problem := job.get("plan_problem"):
        raise Conflict(problem, hint=f"`terracrew job rerun {job['number']} --follow` plans again")
