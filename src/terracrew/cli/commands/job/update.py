"""`terracrew job update`: change a job that waits."""

import click

from terracrew.cli.arguments import name_completion, placement_options
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("update")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--priority",
    type=placement_options.PRIORITIES,
    required=True,
    help="A job with a higher priority runs first: -100 to 100. Above 10, you must be an owner of the module.",
)
@output.json_option
@pass_target
def update(target: Target, job_id: str, priority: int) -> output.Result:
    """Change the priority of the job JOB, which must be queued or wait for an approval."""
    from terracrew.client.http import segment

    made = target.api().patch(f"/jobs/{segment(job_id)}", {"priority": priority})
    return output.message(made, f"job {made['number']} has the priority {made['priority']}")
