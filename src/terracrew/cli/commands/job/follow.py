"""Follows a job until it ends, with or without its log, and prints why it waits and what its plan found."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from terracrew.cli.commands.job import status_line
from terracrew.cli.connection import deadline
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.wording import plan_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

MIN_POLL_SECONDS = 2.0
"""The least time between two reads of a job that other jobs' events cause."""


class StatusNotes:
    """Prints the status of a job, why it waits and which command helps; it does not print the same line twice in a row."""

    def __init__(self) -> None:
        self._last_printed: tuple[str, str] | None = None

    def print_changed(self, job: dict[str, Any]) -> None:
        reason: dict[str, Any] = job.get("reason") or {}
        now = (job["status"], reason.get("text") or "")
        if now != self._last_printed and job["status"] not in status_line.EXIT_CODES:
            output.note(status_line.describe(job))
            if command := status_line.suggested_command(job):
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
) -> dict[str, Any]:
    """Write the job's whole log as it grows, and return the job when it has ended."""
    deadline.wait_out(api)
    place = f"/jobs/{segment(job_id)}/log/stream" + (f"?attempt={attempt}" if attempt else "")
    notes, attempt_shown, is_line_start = StatusNotes(), 0, True
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
                    notes.print_changed(job)
                if stop_at_approval and job["status"] == "AWAITING_APPROVAL":
                    return job
            case "end":
                break
            case _:
                pass
    return api.get(f"/jobs/{segment(job_id)}")


def follow_events(
    api: "Api", job_id: str, out: BinaryIO, *, attempt: int | None = None, stop_at_approval: bool = False
) -> dict[str, Any]:
    """Write each event of the job's log as a line of JSON as soon as it comes, and return the job when it has ended."""
    deadline.wait_out(api)
    place = f"/jobs/{segment(job_id)}/log/stream" + (f"?attempt={attempt}" if attempt else "")
    encoder, notes = msgspec.json.Encoder(), StatusNotes()
    for event in api.events(place):
        if event.name == "log":
            out.write(encoder.encode_lines(msgspec.json.decode(event.data)))
            out.flush()
        elif event.name == "job":
            job = msgspec.json.decode(event.data)
            notes.print_changed(job)
            if stop_at_approval and job["status"] == "AWAITING_APPROVAL":
                return job
        elif event.name == "end":
            break
    return api.get(f"/jobs/{segment(job_id)}")


def wait(api: "Api", job_id: str, *, stop_at_approval: bool = False) -> dict[str, Any]:
    """Return the job when it has ended. It subscribes before it reads, so that the end cannot be missed.

    The reason for waiting can change because of other jobs or with time, so their events cause reads, too, but not all of them.
    """
    notes, read_at, own_id = StatusNotes(), 0.0, job_id
    deadline.wait_out(api)
    for event in api.events("/events"):
        is_own = event.name == "open" or (event.name == "jobs" and event.data in (own_id, "all"))
        if not is_own and time.monotonic() - read_at < MIN_POLL_SECONDS:
            continue
        job = api.get(f"/jobs/{segment(job_id)}")
        own_id, read_at = job["id"], time.monotonic()  # the argument may be a number, events have ids
        if job["status"] in status_line.EXIT_CODES or (stop_at_approval and job["status"] == "AWAITING_APPROVAL"):
            return job
        notes.print_changed(job)
    raise AssertionError("the stream of events never ends")


def run(api: "Api", path: str, *, is_silent: bool) -> dict[str, Any]:
    """Run a plan of a module until it ends, and return its job."""
    from uuid import uuid4

    made = api.post(f"/modules/{segment(path)}/jobs", {"type": "PLAN"}, headers={"Idempotency-Key": uuid4().hex})
    job = wait(api, made["id"])
    if is_silent:
        return job
    if job["status"] != "SUCCEEDED":
        output.note(f"the plan failed: {job.get('message') or job['status']}; terracrew job logs {job['number']}")
    elif has_no_changes(job):
        click.echo("the plan finds nothing to change")
    else:
        changed = len(job["plan"].get("outputs") or ())
        outputs = f", {changed} output{'' if changed == 1 else 's'} changed" if changed else ""
        found = f"the plan finds changes: {output.plan(job['plan'])}{outputs}"
        output.note(f"{found}; terracrew job show {job['number']} --diff")
    return job


def has_no_changes(job: dict[str, Any]) -> bool:
    return job["status"] == "SUCCEEDED" and not plan_words.has_changes(job.get("plan") or {})
