"""`terracrew job logs`: prints a job's log, or follows it."""

from typing import TYPE_CHECKING

import click

from terracrew.api.job_views import JobView
from terracrew.cli.arguments import name_completion, options, values
from terracrew.cli.commands.job import follow
from terracrew.cli.commands.job.run import color_option, stop_option
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output, streams
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_TAIL_LINES = 10_000


@click.command(
    "logs",
    epilog=output.examples(
        "terracrew job logs -f 12",
        "terracrew job logs 12 --tail 50",
    ),
)
@click.argument("job_id", metavar="JOB", shell_complete=name_completion.jobs)
@click.option(
    "--follow", "-f", "following", is_flag=True, help="Continue until the job ends, and exit with its exit code."
)
@click.option(
    "--attempt",
    type=values.WholeNumber(min=1),
    metavar="N",
    help="Only the log of this attempt; by default of all attempts.",
)
@click.option(
    "--tail",
    type=values.WholeNumber(1, MAX_TAIL_LINES),
    metavar="N",
    help="Only the last N lines of the last attempt, or of --attempt.",
)
@stop_option
@options.timeout
@color_option
@output.with_target
def logs(
    target: Target,
    job_id: str,
    following: bool,
    attempt: int | None,
    tail: int | None,
    stop_at_approval: bool,
    timeout: float | None,
    color: bool | None,
) -> int:
    """Print the log of all attempts of the job JOB, and what happened between them.

    With --json, each line is an event: {n, time, step, stream, text, attempt}. With --follow, too.
    """
    api = target.api()
    as_json = output.wants_json()
    if tail is not None:
        if following or as_json:
            raise Invalid("--tail prints the last lines as they are now: leave out --follow and --json")
        return _print_last(api, job_id, attempt, tail, color)
    if following and as_json:
        with deadline(timeout, f"job {job_id}"), streams.document_output() as stream:
            found = follow.follow_events(api, job_id, stream, attempt=attempt, stop_at_approval=stop_at_approval)
        return follow.exit_code(found)
    if following:
        with deadline(timeout, f"job {job_id}"), streams.log_output(color) as write:
            found = follow.follow(api, job_id, write=write, attempt=attempt, stop_at_approval=stop_at_approval)
        follow.print_end(found)
        return follow.exit_code(found)
    place = f"/jobs/{segment(job_id)}/log"
    if as_json:
        with streams.document_output() as stream:
            api.download(place, stream, attempt=attempt, format="events")
    else:
        with streams.text_output(color) as stream:
            api.download(place, stream, attempt=attempt)
    return 0


def _print_last(api: "Api", job_id: str, attempt: int | None, count: int, color: bool | None) -> int:
    """Print the last lines of an attempt."""
    attempts = api.get(f"/jobs/{segment(job_id)}", JobView).attempts
    found = next((each for each in reversed(attempts) if attempt in (None, each.number)), None)
    if found is None and attempt is not None:
        raise NotFound(f"job {job_id} has no attempt {attempt}")
    if found is None or not found.lines:
        return 0
    first = max(1, found.lines - count + 1)
    with streams.text_output(color) as stream:
        api.download(f"/jobs/{segment(job_id)}/log", stream, attempt=found.number, line=first, lines=count)
    return 0
