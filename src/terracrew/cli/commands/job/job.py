"""`terracrew job`: run jobs, follow their logs, decide about their plans, cancel them."""

import click

from terracrew.cli.commands.job import (
    apply,
    approval,
    cancel,
    gone,
    inputs,
    logs,
    lost_resources,
    outputs,
    run,
    show,
    update,
)
from terracrew.cli.lazy import LazyGroup


@click.group(cls=LazyGroup)
def job() -> None:
    """Run jobs, follow their logs, decide about their plans, cancel them.

    A command that waits for a job exits with 0 if it SUCCEEDED, 10 if it FAILED, 11 if it was CANCELED, 12 if DECLINED,
    13 if --timeout came first, and 14 if --stop-at-approval was given and the plan waits for approval.
    """


for _command in (run.run, run.rerun, run.wait, show.list_jobs, show.show_job, logs.logs, update.update, cancel.cancel):
    job.add_command(_command)
for _command in (
    apply.apply,
    approval.approve,
    approval.decline,
    approval.replan,
    gone.gone,
    inputs.job_inputs,
    outputs.job_outputs,
):
    job.add_command(_command)
job.add_command(lost_resources.lost_resources)
