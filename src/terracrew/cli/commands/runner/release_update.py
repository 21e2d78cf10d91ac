"""The part of `terracrew runner update` that brings runners to a release: one of them, or all outdated ones in waves."""

import sys
from typing import Any

import click

from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import fleet_progress, output, rollout_view
from terracrew.errors import Conflict, Invalid


def update_one(target: Target, path: str, version: str | None, *, accept_breaking: bool, wait: bool) -> output.Result:
    """Update one runner, and follow its job."""
    api, wanted = target.api(), {"version": version, "accept_breaking": accept_breaking}
    try:
        job = api.post(f"{api_path(path)}/update", wanted)
    except Conflict as refusal:
        if not refusal.details.get("breaking") or output.wants_json() or not sys.stdin.isatty():
            raise
        click.echo(refusal.message, err=True)
        output.ask("Is that done, and shall the runner be updated?", "nothing was updated")
        job = api.post(f"{api_path(path)}/update", wanted | {"accept_breaking": True})
    output.note(f"updating {job['target_name']}: {job['type']} #{job['number']}")
    if wait:
        return fleet_progress.follow(api, job["id"])
    return output.message(job, f"`terracrew fleet-job logs {job['number']} --follow` shows how far it is")


def update_all(
    target: Target, group: str, *, accept_breaking: bool, dry_run: bool, yes: bool, wait: bool
) -> output.Result:
    """Update all outdated runners that the caller may change, in waves."""
    api = target.api()
    preview = api.get("/rollouts/preview", group=group)
    if dry_run:
        return output.Result(preview, lambda: _print_preview(preview))
    updatable = [each for each in preview["runners"] if each["wave"] is not None]
    is_json = output.wants_json()
    if not is_json:
        _print_preview(preview)
    if updatable:
        accept_breaking = _confirm(preview, len(updatable), accept_breaking=accept_breaking, yes=yes or is_json)
    elif not preview["runners"] or not preview["version"]:
        return output.Result(preview, lambda: None)
    wanted = {"version": preview["version"], "group": group, "accept_breaking": accept_breaking}
    made = api.post("/rollouts", wanted)
    output.note(f"rolling out {made['version']}: `terracrew release rollout show` shows how far it is")
    if wait:
        made = rollout_view.follow(api, made["id"], is_shown=not is_json)
    exit_code = 1 if made["status"] == "stopped" else 0
    return output.Result(made, (lambda: _print_end(made)) if wait else (lambda: None), exit_code)


def _print_end(rollout: dict[str, Any]) -> None:
    click.echo(f"roll-out of {rollout['version']} {rollout['status']}: {rollout_view.summary(rollout)}")
    if rollout["stop_reason"]:
        click.echo(output.text(rollout["stop_reason"]), err=True)
    if rollout["status"] == "stopped" and rollout["counts"]["failed"]:
        output.note("`terracrew release rollout resume` tries the runners that failed again, and goes on")


def _print_preview(preview: dict[str, Any]) -> None:
    if not preview["version"]:
        return click.echo("no release was published yet: there is nothing to update to")
    if not preview["runners"]:
        return click.echo(f"no runner that you may change is older than {preview['version']}")
    click.echo(f"Update to {preview['version']}")
    rollout_view.print_plan(preview)
    click.echo()
    if preview["automatic_words"]:
        output.note(preview["automatic_words"])
    return rollout_view.print_breaking(preview["breaking"])


def _confirm(preview: dict[str, Any], count: int, *, accept_breaking: bool, yes: bool) -> bool:
    """Return whether breaking releases are accepted, after the person has confirmed the update."""
    is_asked = sys.stdin.isatty() and not yes
    if preview["breaking"] and not accept_breaking and not is_asked:
        raise Invalid("the update is breaking: do what is said about it, and add --accept-breaking")
    if is_asked:
        question = "Is that done, and shall" if preview["breaking"] and not accept_breaking else "Shall"
        runners = "1 runner" if count == 1 else f"{count} runners"
        output.ask(f"{question} {runners} be updated?", "nothing was updated")
        return True
    if not yes:
        raise Invalid("there is no terminal to ask on: add --yes to start the updates")
    return accept_breaking
