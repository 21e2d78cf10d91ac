"""Follows a job of the fleet on the terminal: each step once it has ended, and what the running one does."""

import time
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.connection import outages
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.printing import output

if TYPE_CHECKING:
    from terracrew.client.http import Api

POLL_SECONDS = 0.5
TERMINAL = frozenset({"SUCCEEDED", "FAILED", "CANCELED"})
_MARKS = {"done": ("✓", "green"), "failed": ("✗", "red")}


def follow(api: "Api", job_id: str, *, timeout: float | None = None) -> output.Result:
    """Wait until a job has ended, and return it with its steps. Steps are printed to standard error as they end."""
    outages.wait_out(api)
    printed: set[tuple[int, str]] = set()
    with deadline(timeout, "the job"):
        while (job := _read(api, job_id, printed))["status"] not in TERMINAL:
            time.sleep(POLL_SECONDS)
    return output.Result(job, lambda: _print_end(job), 0 if job["status"] == "SUCCEEDED" else 1)


def _read(api: "Api", job_id: str, printed: set[tuple[int, str]]) -> dict[str, Any]:
    """Return the job as it is now, and print the steps of it that have ended since the last time."""
    job: dict[str, Any] = api.get(f"/fleet-jobs/{job_id}")
    if not output.wants_json():
        _print_new(job, printed)
    return job


def _print_end(job: dict[str, Any]) -> None:
    """Print how a job has ended, in one line."""
    failed = sum(step["status"] == "failed" for step in job["steps"])
    passed = sum(step["status"] == "done" for step in job["steps"])
    counts = f"{passed} of {passed + failed} passed" if passed + failed else ""
    words = ", ".join(
        each for each in (f"{job['type']} #{job['number']} {job['status']}", counts, job["error"]) if each
    )
    click.echo(words)


def _print_new(job: dict[str, Any], printed: set[tuple[int, str]]) -> None:
    for step in job["steps"]:
        key = (step["attempt"], step["name"])
        if step["status"] in _MARKS and key not in printed:
            printed.add(key)
            _print_step(step)


def _print_step(step: dict[str, Any]) -> None:
    mark, colour = _MARKS[step["status"]]
    proof = step["detail"] or step["reference"]
    took = output.duration(step["started_at"], step["finished_at"])
    text = f"{output.text(step['words'])}" + (f": {output.text(proof)}" if proof else "")
    click.echo(f"{click.style(mark, fg=colour)} {text}  {click.style(took, dim=True)}", err=True)
    if step["remedy"]:
        click.echo(f"  {output.broken(output.text(step['remedy']), 2)}", err=True)
