"""Describes a job in one line, and follows it until it ends, with or without its log."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

import click
import msgspec

from terracrew.api.job_views import JobListed, JobView, LogEvent
from terracrew.api.jobs import Job, JobStatus, NewJob
from terracrew.cli.connection import deadline
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.protocol.spec import JobType
from terracrew.wording import plan_option_words, plan_words
from terracrew.wording.escapes import plain

if TYPE_CHECKING:
    from terracrew.client.http import Api

EXIT_CODES = {"SUCCEEDED": 0, "FAILED": 10, "CANCELED": 11, "DECLINED": 12}
AWAITING_APPROVAL_EXIT_CODE = 14
_DECIDE_COMMANDS = "terracrew job approve {number} --plan {plan}, or terracrew job decline {number} --reason …"
_COMMANDS = {
    "approval": _DECIDE_COMMANDS,
    "in_doubt": _DECIDE_COMMANDS,
    "lost": "terracrew job gone {number}",
    "quarantine": "terracrew state list {module} --quarantined, then terracrew state adopt or discard",
}
MIN_POLL_SECONDS = 2.0
"""The least time between two reads of a job that other jobs' events cause."""


def describe(job: Job) -> str:
    """Return the job's status in one line, with why it waits or how it ended."""
    words = why(job)
    return f"job {job.number} {job.status}" + (f": {words}" if words else "")


def why(job: Job) -> str:
    """Return why the job waits, since and until when, or the message that it ended with."""
    reason = job.reason if isinstance(job, JobListed) else None
    if reason is None or not reason.text:
        return plain(job.message)
    times = [output.lasting(reason.since)] if reason.since else []
    times += [output.left(reason.until, since=reason.since)] if reason.until else []
    return plain(reason.text) + (f" ({', '.join(times)})" if times else "")


def next_command(job: JobListed) -> str:
    """Return the command that usually follows a job that has ended in this way."""
    if job.status is JobStatus.FAILED:
        return f"terracrew job show {job.number}"
    if job.status is not JobStatus.SUCCEEDED or job.type is JobType.DESTROY:
        return ""
    if job.type is JobType.APPLY:
        return f"terracrew module outputs {job.module_path}"
    if not plan_words.has_changes(job.plan):
        return ""  # there is nothing to apply
    if isinstance(job, JobView) and job.is_plan_applicable:
        return f"terracrew job apply {job.number} --follow"
    kind = "--destroy" if job.is_destroy_plan else "--apply"
    return f"terracrew job run {job.module_path} {kind}{plan_option_words.command(job)} --follow"


def suggested_command(job: JobListed) -> str:
    """Return the command with which a person lets the job continue."""
    code = job.reason.code if job.reason else ""
    if code in ("approval", "in_doubt") and job.status is not JobStatus.AWAITING_APPROVAL:
        return ""  # it waits for a decision about another job
    return _COMMANDS.get(code, "").format(number=job.number, module=job.module_path, plan=job.plan_attempt)


def print_end(job: Job) -> None:
    """Print how a job ended."""
    colour = "green" if job.status is JobStatus.SUCCEEDED else "red"
    click.echo(click.style(describe(job), fg=colour), err=True)


def exit_code(job: Job) -> int:
    """Return the exit code of a command that has waited for a job."""
    waits = job.status is JobStatus.AWAITING_APPROVAL
    return AWAITING_APPROVAL_EXIT_CODE if waits else EXIT_CODES.get(job.status, 0)


class StatusNotes:
    """Prints the status of a job, why it waits and which command helps; it does not print the same line twice in a row."""

    def __init__(self) -> None:
        self._last_printed: tuple[str, str] | None = None

    def print_changed(self, job: JobListed) -> None:
        now = (job.status, job.reason.text if job.reason else "")
        if now != self._last_printed and not job.is_terminal:
            output.note(describe(job))
            if command := suggested_command(job):
                output.note(f"  {command}")
        self._last_printed = now


def follow(
    api: "Api",
    job_id: str,
    *,
    write: Callable[[str], None],
    attempt: int | None = None,
    news: bool = True,
    stop_at_approval: bool = False,
    wants: Callable[[LogEvent], bool] = lambda _: True,
) -> JobView:
    """Write the job's log, or what is wanted of it, as it grows, and return the job when it has ended."""
    attempt_shown, is_line_start = 0, True

    def write_events(data: str) -> None:
        nonlocal attempt_shown, is_line_start
        for each in msgspec.json.decode(data, type=list[LogEvent]):
            if not wants(each):
                continue
            if each.step == "between":  # a line about what happened between two attempts
                start = "" if is_line_start else "\n"
                write(f"{start}── {each.text.rstrip()} ──\n")
                is_line_start = True
                continue
            if each.attempt < attempt_shown:
                output.note(f"delivered late by attempt {each.attempt}:")
            attempt_shown = max(attempt_shown, each.attempt)
            write(each.text)
            is_line_start = each.text.endswith("\n")

    return _follow(api, job_id, write_events, attempt, news=news, stop_at_approval=stop_at_approval)


def follow_events(
    api: "Api",
    job_id: str,
    out: BinaryIO,
    *,
    attempt: int | None = None,
    stop_at_approval: bool = False,
    wants: Callable[[LogEvent], bool] = lambda _: True,
) -> JobView:
    """Write each event of the job's log as a line of JSON as soon as it comes, and return the job when it has ended."""
    encoder = msgspec.json.Encoder()

    def write_events(data: str) -> None:
        out.write(
            encoder.encode_lines([each for each in msgspec.json.decode(data, type=list[LogEvent]) if wants(each)])
        )
        out.flush()

    return _follow(api, job_id, write_events, attempt, stop_at_approval=stop_at_approval)


def _follow(
    api: "Api",
    job_id: str,
    write_events: Callable[[str], None],
    attempt: int | None,
    *,
    news: bool = True,
    stop_at_approval: bool,
) -> JobView:
    """Hand each list of log events to `write_events`, and return the job when it has ended."""
    deadline.wait_out(api)
    notes = StatusNotes()
    for event in api.events(f"/jobs/{segment(job_id)}/log/stream" + (f"?attempt={attempt}" if attempt else "")):
        if event.name == "log":
            write_events(event.data)
        elif event.name == "job":
            job = msgspec.json.decode(event.data, type=JobView)
            if news:
                notes.print_changed(job)
            if stop_at_approval and job.status is JobStatus.AWAITING_APPROVAL:
                return job
        elif event.name == "end":
            break
    return api.get(f"/jobs/{segment(job_id)}", JobView)


def wait(api: "Api", job_id: str, *, stop_at_approval: bool = False) -> JobView:
    """Return the job when it has ended. It subscribes before it reads, so that the end cannot be missed.

    The reason for waiting can change because of other jobs or with time, so their events cause reads, too, but not all of them.
    """
    notes, read_at, own_id = StatusNotes(), 0.0, job_id
    deadline.wait_out(api)
    for event in api.events("/events"):
        is_own = event.name == "open" or (event.name == "jobs" and event.data in (own_id, "all"))
        if not is_own and time.monotonic() - read_at < MIN_POLL_SECONDS:
            continue
        job = api.get(f"/jobs/{segment(job_id)}", JobView)
        own_id, read_at = job.id, time.monotonic()  # the argument may be a number, events have ids
        if job.is_terminal or (stop_at_approval and job.status is JobStatus.AWAITING_APPROVAL):
            return job
        notes.print_changed(job)
    raise AssertionError("the stream of events never ends")


def queue(api: "Api", module: str, new: NewJob, key: str | None = None) -> Job:
    """Queue a job. With the key, a request whose answer was lost can be repeated and still creates one job only."""
    return api.post(f"/modules/{segment(module)}/jobs", new, Job, headers={"Idempotency-Key": key or uuid4().hex})


def run(api: "Api", path: str, *, is_silent: bool) -> JobView:
    """Run a plan of a module until it ends, and return its job."""
    job = wait(api, queue(api, path, NewJob(JobType.PLAN)).id)
    if is_silent:
        return job
    if job.status is not JobStatus.SUCCEEDED:
        output.note(f"the plan failed: {job.message or job.status}; terracrew job logs {job.number}")
    elif has_no_changes(job):
        click.echo("the plan finds nothing to change")
    else:
        changed = len(job.plan.outputs) if job.plan else 0
        outputs = f", {changed} output{'' if changed == 1 else 's'} changed" if changed else ""
        found = f"the plan finds changes: {output.plan(job.plan)}{outputs}"
        output.note(f"{found}; terracrew job show {job.number} --diff")
    return job


def has_no_changes(job: Job) -> bool:
    return job.status is JobStatus.SUCCEEDED and not plan_words.has_changes(job.plan)
