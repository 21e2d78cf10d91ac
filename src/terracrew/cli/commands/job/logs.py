"""`terracrew job logs`: prints a job's log, or follows it."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from terracrew.api.job_views import JobView, LogEvent
from terracrew.cli.arguments import name_completion, options, values
from terracrew.cli.commands.job import follow, log_search
from terracrew.cli.commands.job.run import color_option, stop_option
from terracrew.cli.connection.deadline import deadline, wait_out
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output, streams
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound
from terracrew.protocol.spec import Step

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_TAIL_LINES = 10_000
MAX_CONTEXT_LINES = 20
STEPS = tuple(step.value for step in Step)


@click.command(
    "logs",
    epilog=output.examples(
        "terracrew job logs -f 12",
        "terracrew job logs 12 --tail 50",
        "terracrew job logs 12 --grep 'error:' -C 3",
        "terracrew job logs 12 --since 10m --step apply",
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
@click.option("--since", type=values.Moment(), metavar="WHEN", help="Only what was printed since then: 10m, or a time.")
@click.option("--step", type=click.Choice(STEPS), help="Only what this step has printed.")
@click.option(
    "--grep",
    "text",
    metavar="TEXT",
    help="Only lines that have TEXT, with their numbers; upper and lower case are the same.",
)
@click.option("--regex", is_flag=True, help="TEXT is a regular expression, as RE2 understands them.")
@click.option("--case", is_flag=True, help="Upper and lower case of TEXT differ.")
@click.option(
    "-C",
    "context",
    type=values.WholeNumber(0, MAX_CONTEXT_LINES),
    default=0,
    metavar="N",
    help="N lines around each that has TEXT.",
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
    since: str | None,
    step: str | None,
    text: str | None,
    regex: bool,
    case: bool,
    context: int,
    stop_at_approval: bool,
    timeout: float | None,
    color: bool | None,
) -> int:
    """Print the log of all attempts of the job JOB, and what happened between them.

    With --json, each line is an event: {n, time, step, stream, text, attempt}. With --follow, too. With --grep, each line is a hit:
    {attempt, line, run_line, n, time, step, stream, text, matches, skipped, before, after}.

    --grep with --tail searches the last lines only, and with --follow goes on until the job ends.
    """
    api = target.api()
    as_json = output.wants_json()
    if text is None and (regex or case or context):
        raise Invalid("--regex, --case and -C belong to a search: give --grep TEXT")
    if text is not None:
        if stop_at_approval:
            raise Invalid("--stop-at-approval follows the whole log: leave out --grep")
        query = {
            "text": text,
            "regex": regex or None,
            "case": case or None,
            "context": context or None,
            "attempt": attempt,
        }
        query |= {"since": since, "step": step}
        if tail is not None:
            query |= _last_lines(api, job_id, attempt, tail)
        with deadline(timeout, f"job {job_id}"):
            if following:
                wait_out(api)
            log_search.search(api, job_id, query, following=following)
        if not following:
            return 0
        found = api.get(f"/jobs/{segment(job_id)}", JobView)
        follow.print_end(found)
        return follow.exit_code(found)
    if tail is not None and (since or step):
        raise Invalid("--tail counts all lines: leave out --since and --step, or search with --grep")
    wants = _filter(since, step)
    if tail is not None:
        if following or as_json:
            raise Invalid("--tail prints the last lines as they are now: leave out --follow and --json")
        return _print_last(api, job_id, attempt, tail, color)
    if following and as_json:
        with deadline(timeout, f"job {job_id}"), streams.document_output() as stream:
            found = follow.follow_events(
                api, job_id, stream, attempt=attempt, stop_at_approval=stop_at_approval, wants=wants
            )
        return follow.exit_code(found)
    if following:
        with deadline(timeout, f"job {job_id}"), streams.log_output(color) as write:
            found = follow.follow(
                api, job_id, write=write, attempt=attempt, stop_at_approval=stop_at_approval, wants=wants
            )
        follow.print_end(found)
        return follow.exit_code(found)
    place = f"/jobs/{segment(job_id)}/log"
    if as_json:
        with streams.document_output() as stream:
            api.download(place, stream, attempt=attempt, since=since, step=step, format="events")
    else:
        with streams.text_output(color) as stream:
            api.download(place, stream, attempt=attempt, since=since, step=step)
    return 0


def _filter(since: str | None, step: str | None) -> Callable[[LogEvent], bool]:
    """Return what `since` and `step` leave of a log that is followed. The server reads a log from its start to follow it."""
    begin = datetime.fromisoformat(since).timestamp() if since else 0.0
    return lambda event: event.time >= begin and step in (None, event.step)


def _last_lines(api: "Api", job_id: str, attempt: int | None, count: int) -> dict[str, Any]:
    """Return the arguments of a search in the last lines of an attempt."""
    attempts = api.get(f"/jobs/{segment(job_id)}", JobView).attempts
    found = next((each for each in reversed(attempts) if attempt in (None, each.number)), None)
    if found is None:
        return {}
    return {"attempt": found.number, "after": f"{found.number}.{max(0, found.lines - count)}"}


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
