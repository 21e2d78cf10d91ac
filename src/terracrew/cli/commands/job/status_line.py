"""Describes a job in one line: its status, why it waits or how it ended, and which command comes next."""

from typing import Any

import click

from terracrew.cli.printing import output
from terracrew.wording import plan_words
from terracrew.wording.escapes import plain

EXIT_CODES = {"SUCCEEDED": 0, "FAILED": 10, "CANCELED": 11, "DECLINED": 12}
STATUSES = ["QUEUED", "CLAIMED", "PROCESSING", "AWAITING_APPROVAL", *EXIT_CODES]
AWAITING_APPROVAL_EXIT_CODE = 14
_DECIDE_COMMANDS = "terracrew job approve {number} --plan {plan}, or terracrew job decline {number} --reason …"
_COMMANDS = {
    "approval": _DECIDE_COMMANDS,
    "in_doubt": _DECIDE_COMMANDS,
    "lost": "terracrew job gone {number}",
    "quarantine": "terracrew state list {module} --quarantined, then terracrew state adopt or discard",
}


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
    times += [output.left(reason["until"], since=reason.get("since"))] if reason.get("until") else []
    return plain(reason["text"]) + (f" ({', '.join(times)})" if times else "")


def next_command(job: dict[str, Any]) -> str:
    """Return the command that usually follows a job that has ended in this way."""
    module = job.get("module_path", "")
    if job["status"] == "FAILED":
        return f"terracrew job show {job['number']}"
    if job["status"] != "SUCCEEDED" or not module:
        return ""
    if job["type"] == "PLAN":
        if not plan_words.has_changes(job.get("plan") or {}):
            return ""  # there is nothing to apply
        if job.get("is_plan_applicable"):
            return f"terracrew job apply {job['number']} --follow"
        return f"terracrew job run {module} {'--destroy' if job.get('is_destroy_plan') else '--apply'} --follow"
    return f"terracrew module outputs {module}" if job["type"] == "APPLY" else ""


def suggested_command(job: dict[str, Any]) -> str:
    """Return the command with which a person lets the job continue."""
    reason: dict[str, Any] = job.get("reason") or {}
    if reason.get("code") in ("approval", "in_doubt") and job["status"] != "AWAITING_APPROVAL":
        return ""  # it waits for a decision about another job
    known = {"number": job["number"], "module": job.get("module_path"), "plan": job.get("plan_attempt")}
    return _COMMANDS.get(reason.get("code") or "", "").format(**known)


def print_end(job: dict[str, Any]) -> None:
    """Print how a job ended."""
    colour = "green" if job["status"] == "SUCCEEDED" else "red"
    click.echo(click.style(describe(job), fg=colour), err=True)


def exit_code(job: dict[str, Any]) -> int:
    """Return the exit code of a command that has waited for a job."""
    return AWAITING_APPROVAL_EXIT_CODE if job["status"] == "AWAITING_APPROVAL" else EXIT_CODES.get(job["status"], 0)
