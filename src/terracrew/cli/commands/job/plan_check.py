"""Plans a module whose state was just brought, and says whether the configuration matches it."""

from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.printing import output
from terracrew.wording import plan_words

if TYPE_CHECKING:
    from terracrew.client.http import Api


def run(api: "Api", path: str, *, is_silent: bool) -> dict[str, Any]:
    """Run a plan of a module until it ends, and return its job."""
    from uuid import uuid4

    from terracrew.cli.commands.job import follow
    from terracrew.client.http import segment

    made = api.post(f"/modules/{segment(path)}/jobs", {"type": "PLAN"}, {"Idempotency-Key": uuid4().hex})
    job = follow.wait(api, made["id"])
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
