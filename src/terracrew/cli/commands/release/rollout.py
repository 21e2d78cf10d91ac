"""`terracrew release rollout`: shows roll-outs of releases, and pauses, resumes and stops them."""

from typing import Any

import click

from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output, rollout_view

_rollout_argument = click.argument("rollout_id", metavar="[ID]", default="latest")


@click.group("rollout")
def rollout() -> None:
    """Show, pause, resume and stop roll-outs: updates of runners in waves. ID is a roll-out; the newest one if it is left out."""


@rollout.command("list")
@output.json_option
@pass_target
def list_rollouts(target: Target) -> output.Result:
    """List the roll-outs of the organization, the newest first."""
    items = list(target.api().list("/rollouts"))
    rows = [
        (
            each["id"],
            each["version"],
            each["status"],
            rollout_view.summary(each),
            "automatic" if each["is_automatic"] else each["started_by_name"],
            output.age(each["started_at"]),
        )
        for each in items
    ]
    columns = ("ID", "VERSION", "STATUS", "PROGRESS", "BY", "STARTED")
    return output.listing(items, columns, rows, empty="no roll-outs: `terracrew runner update --all` starts one")


@rollout.command("show")
@_rollout_argument
@output.json_option
@pass_target
def show(target: Target, rollout_id: str) -> output.Result:
    """Show how far a roll-out is.

    Each wave has its runners with their status; for those that are updated by hand there is the command.
    """
    found = target.api().get(_place(rollout_id))
    return output.Result(found, lambda: rollout_view.print_rollout(found))


@rollout.command("pause")
@_rollout_argument
@output.json_option
@pass_target
def pause(target: Target, rollout_id: str) -> output.Result:
    """Start no further update until the roll-out is resumed. Updates that run go on."""
    return _changed(target.api().post(f"{_place(rollout_id)}/pause", None), "paused")


@rollout.command("resume")
@_rollout_argument
@output.json_option
@pass_target
def resume(target: Target, rollout_id: str) -> output.Result:
    """Go on with a roll-out that was paused or stopped. Runners that failed are updated again."""
    return _changed(target.api().post(f"{_place(rollout_id)}/resume", None), "resumed")


@rollout.command("stop")
@_rollout_argument
@output.json_option
@pass_target
def stop(target: Target, rollout_id: str) -> output.Result:
    """End a roll-out. Updates that run go on; runners that wait are not updated."""
    return _changed(target.api().post(f"{_place(rollout_id)}/stop", None), "stopped")


def _place(rollout_id: str) -> str:
    from terracrew.client.http import segment

    return f"/rollouts/{segment(rollout_id)}"


def _changed(found: dict[str, Any], word: str) -> output.Result:
    return output.message(found, f"{word} the roll-out of {found['version']}: {rollout_view.summary(found)}")
