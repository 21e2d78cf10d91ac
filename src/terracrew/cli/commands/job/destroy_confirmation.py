"""Asks before everything that a module manages is destroyed, and lists it."""

import sys
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.printing import output
from terracrew.errors import Invalid
from terracrew.wording import approval_words, dependency_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_RESOURCES_NAMED = 10
"""The question names this many resources and counts the others."""


def job_type(is_plan: bool, is_apply: bool, is_destroy: bool) -> dict[str, Any]:
    """Return the job that the flags ask for, as fields of the request. Contradicting flags are refused."""
    if is_apply and (is_plan or is_destroy):
        other = "--plan" if is_plan else "--destroy"
        raise Invalid(
            f"--apply and {other} cannot be combined: use one of --plan, --apply and --destroy, or --plan --destroy "
            "to see what a destroy would destroy"
        )
    if is_plan and is_destroy:
        return {"type": "PLAN", "is_destroy_plan": True}
    return {"type": "APPLY" if is_apply else "DESTROY" if is_destroy else "PLAN"}


def confirm(api: "Api", module: str, yes: bool) -> None:
    """Return if the person confirms that everything may be destroyed. Without a terminal, --yes is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(
            f"this destroys everything that {module} manages, and there is no terminal to ask on: add --yes to confirm it",
            hint=f"to see what would be destroyed: terracrew job run {module} --plan --destroy",
        )
    from terracrew.client.http import segment

    known = api.get(f"/modules/{segment(module)}")
    rules: list[dict[str, Any]] = known.get("approval_rules") or []
    found = api.get(f"/modules/{segment(module)}/resources")
    output.note(_words(module, found))
    if found.get("problem"):
        output.note(f"Its state cannot be read, so they are not named: {found['problem']}.")
    for address in found["addresses"][:MAX_RESOURCES_NAMED]:
        click.echo(f"  - {output.text(address)}", err=True)
    count: int | None = found["count"]
    if count is not None and count > MAX_RESOURCES_NAMED:
        click.echo(f"  … and {count - MAX_RESOURCES_NAMED} more", err=True)
    if known.get("used_by"):
        output.note(f"{dependency_words.used_by(known['used_by'])}.")
    output.note(approval_words.before_change(rules, "DESTROY"))
    output.ask(f"Destroy everything that {module} manages? This cannot be undone.", "Not destroyed: no job was queued.")


def _words(module: str, found: dict[str, Any]) -> str:
    if found["count"] is None:
        return f"It is not known how many resources {module} manages."
    if not found["count"]:
        return f"{module} manages no resources."
    return f"{module} manages {found['count']} resource{'' if found['count'] == 1 else 's'}:"
