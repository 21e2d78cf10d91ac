"""Follows a job: prints its log as the engine wrote it, and turns its end into an exit code."""

import io
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from terracrew.cli.printing import output
from terracrew.errors import TerracrewError
from terracrew.escapes import TerminalBytesFilter, TerminalFilter, plain

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_OUTAGE_SECONDS = 300.0
EXIT_CODES = {"SUCCEEDED": 0, "FAILED": 10, "CANCELED": 11, "DECLINED": 12}
AWAITING_APPROVAL_EXIT_CODE = 14
MIN_POLL_SECONDS = 2.0
"""The least time between two reads of a job that other jobs' events cause."""
_DECIDE_COMMANDS = "terracrew job approve {number} --plan {plan}, or terracrew job decline {number} --reason …"
_COMMANDS = {
    "approval": _DECIDE_COMMANDS,
    "in_doubt": _DECIDE_COMMANDS,
    "lost": "terracrew job gone {number}",
    "quarantine": "terracrew state list {module} --quarantined, then terracrew state adopt or discard",
}


class TimedOut(TerracrewError):
    code, exit_code = "timed_out", 13


@contextmanager
def deadline(seconds: float | None, what: str) -> Generator[None]:
    """Raise TimedOut in the block after this time. A signal does it, because the wait may be inside a read."""
    if not seconds:
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimedOut(f"{what} has not ended within {seconds:g} s; it continues")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def log_output(colour: bool | None) -> Generator[Callable[[str], None]]:
    """Yield a function that prints pieces of a log, which may be cut anywhere.

    Colours are kept on a terminal, or if they were asked for. All other control sequences are removed.
    """
    out = sys.stdout
    shown = TerminalFilter(keep_colours=_wants_colour(colour))

    def write(text: str) -> None:
        out.write(shown.feed(text))
        out.flush()

    try:
        yield write
    finally:
        out.write(shown.finish())
        out.flush()


@contextmanager
def text_output(colour: bool | None) -> Generator[BinaryIO]:
    """Yield a stream that prints the bytes of a log, filtered like `log_output`."""
    filtered = _FilteredStream(sys.stdout.buffer, TerminalBytesFilter(keep_colours=_wants_colour(colour)))
    try:
        yield filtered
    finally:
        filtered.finish()


@contextmanager
def document_output() -> Generator[BinaryIO]:
    """Yield standard output for a document: unchanged in a pipe, without control sequences on a terminal."""
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
        return
    filtered = _FilteredStream(sys.stdout.buffer, TerminalBytesFilter(keep_colours=False))
    try:
        yield filtered
    finally:
        filtered.finish()


def _wants_colour(colour: bool | None) -> bool:
    return sys.stdout.isatty() if colour is None else colour


class _FilteredStream(io.BytesIO):
    def __init__(self, out: BinaryIO, shown: TerminalBytesFilter) -> None:
        super().__init__()
        self._out, self._shown = out, shown

    def write(self, piece: Any) -> int:
        self._out.write(self._shown.feed(bytes(piece)))
        return len(piece)

    def finish(self) -> None:
        self._out.write(self._shown.finish())
        self._out.flush()


class StatusNotes:
    """Prints the status of a job, why it waits and which command helps; never the same line twice in a row."""

    def __init__(self) -> None:
        self._said: tuple[str, str] | None = None

    def tell(self, job: dict[str, Any]) -> None:
        reason: dict[str, Any] = job.get("reason") or {}
        now = (job["status"], reason.get("text") or "")
        if now != self._said and job["status"] not in EXIT_CODES:
            output.note(describe(job))
            if command := suggested_command(job):
                output.note(f"  {command}")
        self._said = now


def follow(
    api: "Api",
    job_id: str,
    *,
    write: Callable[[str], None],
    attempt: int | None = None,
    news: bool = True,
    stop_at_approval: bool = False,
) -> dict[str, Any]:
    """Write the job's whole log as it grows, and return the job when it has ended."""
    from terracrew.client.http import segment

    _wait_out_outages(api)
    place = f"/jobs/{segment(job_id)}/log/stream" + (f"?attempt={attempt}" if attempt else "")
    told, attempt_shown, is_line_start = StatusNotes(), 0, True
    for event in api.events(place):
        match event.name:
            case "log":
                for each in msgspec.json.decode(event.data):
                    if each["step"] == "between":  # a line about what happened between two attempts
                        start = "" if is_line_start else "\n"
                        write(f"{start}── {each['text'].rstrip()} ──\n")
                        is_line_start = True
                        continue
                    number = each.get("attempt") or 0
                    if number < attempt_shown:
                        output.note(f"delivered late by attempt {number}:")
                    attempt_shown = max(attempt_shown, number)
                    write(each["text"])
                    is_line_start = each["text"].endswith("\n")
            case "job":
                job = msgspec.json.decode(event.data)
                if news:
                    told.tell(job)
                if stop_at_approval and job["status"] == "AWAITING_APPROVAL":
                    return job
            case "end":
                break
            case _:
                pass
    return api.get(f"/jobs/{segment(job_id)}")


def wait(api: "Api", job_id: str, *, stop_at_approval: bool = False) -> dict[str, Any]:
    """Return the job when it has ended. It subscribes before it reads, so that the end cannot be missed.

    The reason for waiting can change because of other jobs or with time, so their events also cause a read, but not each one.
    """
    from terracrew.client.http import segment

    told, looked_at, own = StatusNotes(), 0.0, job_id
    _wait_out_outages(api)
    for event in api.events("/events"):
        is_own = event.name == "open" or (event.name == "jobs" and event.data in (own, "all"))
        if not is_own and time.monotonic() - looked_at < MIN_POLL_SECONDS:
            continue
        job = api.get(f"/jobs/{segment(job_id)}")
        own, looked_at = job["id"], time.monotonic()  # the argument may be a number, events have ids
        if job["status"] in EXIT_CODES or (stop_at_approval and job["status"] == "AWAITING_APPROVAL"):
            return job
        told.tell(job)
    raise AssertionError("the stream of events never ends")


def _wait_out_outages(api: "Api") -> None:
    """Let requests wait while the server is away, and print what they wait for."""
    said: set[str] = set()

    def note(error: TerracrewError) -> None:
        if error.message not in said:
            said.add(error.message)
            output.note(f"waiting: {error.message}")

    api.patience, api.on_wait = MAX_OUTAGE_SECONDS, note


def describe(job: dict[str, Any]) -> str:
    """Return the job's status in one line, with why it waits or how it ended."""
    words = why(job)
    return f"job {job['number']} {job['status']}" + (f": {words}" if words else "")


def why(job: dict[str, Any]) -> str:
    """Return why the job waits, since and until when, or the message that it ended with."""
    reason: dict[str, Any] = job.get("reason") or {}
    if not reason.get("text"):
        return plain(job.get("message") or "")
    times = [output.lasting(reason["since"])] if reason.get("since") else []
    times += [output.left(reason["until"])] if reason.get("until") else []
    return plain(reason["text"]) + (f" ({', '.join(times)})" if times else "")


def next_command(job: dict[str, Any]) -> str:
    """Return the command that usually follows a job that has ended in this way."""
    module = job.get("module_path", "")
    if job["status"] == "FAILED":
        return f"terracrew job show {job['number']}"
    if job["status"] != "SUCCEEDED" or not module:
        return ""
    if job["type"] == "PLAN":
        return f"terracrew job run {module} {'--destroy' if job.get('is_destroy_plan') else '--apply'} --follow"
    return f"terracrew module outputs {module}" if job["type"] == "APPLY" else ""


def suggested_command(job: dict[str, Any]) -> str:
    """Return the command with which a person lets the job continue."""
    reason: dict[str, Any] = job.get("reason") or {}
    if reason.get("code") in ("approval", "in_doubt") and job["status"] != "AWAITING_APPROVAL":
        return ""  # it waits for a decision about another job
    known = {"number": job["number"], "module": job.get("module_path"), "plan": job.get("plan_attempt")}
    return _COMMANDS.get(reason.get("code") or "", "").format(**known)


def ended(job: dict[str, Any], *, as_json: bool) -> int:
    """Print how a job ended and return the exit code for it."""
    if as_json:
        output.as_json(job)
    else:
        colour = "green" if job["status"] == "SUCCEEDED" else "red"
        click.echo(click.style(describe(job), fg=colour), err=True)
    return AWAITING_APPROVAL_EXIT_CODE if job["status"] == "AWAITING_APPROVAL" else EXIT_CODES.get(job["status"], 0)
