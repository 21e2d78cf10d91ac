"""`terracrew job outputs`: the outputs that a job has read, also if later jobs have changed them."""

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output, outputs_printing


@click.command("outputs")
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.argument("name", required=False)
@click.option("--sensitive", is_flag=True, help="Also show sensitive values. This is recorded in the audit log.")
@output.json_option
@pass_target
def job_outputs(target: Target, job_id: str, name: str | None, sensitive: bool) -> output.Result:
    """Print the outputs that the job JOB has read after its change, or the one called NAME."""
    from terracrew.client.http import segment

    found = target.api().get(f"/jobs/{segment(job_id)}/outputs", sensitive=sensitive or None)
    return outputs_printing.show(found, f"job {job_id}", name, sensitive=sensitive)
