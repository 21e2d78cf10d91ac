"""`terracrew job gone`: a person confirms that a lost attempt is gone."""

from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.arguments import name_completion, numbers
from terracrew.cli.commands.job import attempt_facts, status_line
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Conflict

if TYPE_CHECKING:
    from terracrew.client.http import Api

_RISK = """If a process of this attempt still runs, it may be changing resources at the same time as the next attempt.
The attempt is fenced: nothing that it reports from now on changes the job or the state. {then}
Nothing in {module} changes before somebody has approved a plan that was made after this."""


@click.command("gone")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--attempt", type=numbers.Whole(min=1), metavar="N", help="The attempt that is gone; by default the current one."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def gone(target: Target, job_id: str, attempt: int | None, yes: bool) -> output.Result:
    """Confirm that an attempt of JOB that was lost in the middle of a change is gone.

    The attempt is fenced and its job is queued again. Nothing in its module changes before somebody has approved a plan.
    """
    from terracrew.client.http import segment

    api = target.api()
    return give_up(api, api.get(f"/jobs/{segment(job_id)}"), attempt, yes)


def give_up(api: "Api", job: dict[str, Any], attempt: int | None, yes: bool) -> output.Result:
    """Show what is known about the attempt and what giving it up risks, ask, and give it up."""
    number = attempt or job["attempt"]
    known = api.get(f"/jobs/{job['id']}/attempts/{number}")
    if known["ended_at"] is not None:
        raise Conflict(f"attempt {number} of job {job['number']} has already ended: {known['outcome']}")
    if known["lost_at"] is None:
        raise Conflict(
            f"attempt {number} of job {job['number']} is not lost: it is in contact, or has not been silent for long enough",
            hint=f"`terracrew job cancel {job['number']}` asks it to end",
        )
    attempt_facts.show(known)
    then = "The job is canceled, as requested." if job.get("cancel_mode") else "The job is queued again."
    output.note(_RISK.format(then=then, module=job["module_path"]))
    if not yes:
        output.ask(
            f"Is attempt {number} of job {job['number']} gone for certain?",
            "Nothing was given up: the job still waits.",
        )
    after = api.post(f"/jobs/{job['id']}/attempts/{number}/gone")
    return output.message(after, f"attempt {number} was given up: {status_line.describe(after)}")
