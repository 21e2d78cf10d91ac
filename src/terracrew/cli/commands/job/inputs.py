"""`terracrew job inputs`: what an attempt of a job was given, and from where."""

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands import input as inputs
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("inputs")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option("--attempt", type=click.IntRange(min=1), help="An earlier attempt than the last one.")
@output.json_option
@pass_target
def job_inputs(target: Target, job_id: str, attempt: int | None) -> output.Result:
    """Show which inputs the job JOB was given, where each came from, and whether it has changed since."""
    from terracrew.client.http import segment

    found = target.api().get(f"/jobs/{segment(job_id)}/inputs", attempt=attempt)
    rows = [
        (
            inputs.name_of(each),
            each["kind"],
            inputs.origin(each),
            each["version"] or "",
            inputs.who(each),
            "" if each["is_current"] else "changed since",
        )
        for each in found["items"]
    ]
    empty = f"job {job_id} was given no inputs, or has not started"
    return output.listing(found, ("NAME", "KIND", "FROM", "VERSION", "SET", "NOW"), rows, empty=empty)
