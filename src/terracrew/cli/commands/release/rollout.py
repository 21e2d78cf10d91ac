"""`terracrew release rollout`: shows how far roll-outs of releases have come, and pauses, resumes and stops them."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click
import msgspec

from terracrew.api.rollouts import (
    BreakingChange,
    PlannedRunner,
    RolloutPreview,
    RolloutRunner,
    RolloutRunnerView,
    RolloutSummary,
    RolloutView,
)
from terracrew.cli.connection import deadline
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment

if TYPE_CHECKING:
    from terracrew.client.http import Api


_rollout_argument = click.argument("rollout_id", metavar="[ID]", default="latest")


@click.group("rollout")
def rollout() -> None:
    """Show, pause, resume and stop roll-outs: updates of runners in waves. ID is a roll-out; the newest one if it is left out."""


@rollout.command("list")
@output.with_target
def list_rollouts(target: Target) -> output.CommandResult:
    """List the roll-outs of the organization, the newest first."""
    items = list(target.api().list("/rollouts", RolloutSummary))
    rows = [
        (
            each.id,
            each.version,
            each.status,
            summary(each),
            "automatic" if each.is_automatic else each.started_by_name,
            output.age(each.started_at),
        )
        for each in items
    ]
    columns = ("ID", "VERSION", "STATUS", "PROGRESS", "BY", "STARTED")
    return output.listing(items, columns, rows, empty="no roll-outs: `terracrew runner update --all` starts one")


@rollout.command("show")
@_rollout_argument
@output.with_target
def show(target: Target, rollout_id: str) -> output.CommandResult:
    """Show how far a roll-out is.

    Each wave has its runners with their status; for those that are updated by hand there is the command.
    """
    found = target.api().get(_place(rollout_id), RolloutView)
    return output.CommandResult(found, lambda: print_rollout(found))


@rollout.command("pause")
@_rollout_argument
@output.with_target
def pause(target: Target, rollout_id: str) -> output.CommandResult:
    """Start no further update until the roll-out is resumed. Updates that run go on."""
    return _changed(target.api().post(f"{_place(rollout_id)}/pause", None, RolloutView), "paused")


@rollout.command("resume")
@_rollout_argument
@output.with_target
def resume(target: Target, rollout_id: str) -> output.CommandResult:
    """Go on with a roll-out that was paused or stopped. Runners that failed are updated again."""
    return _changed(target.api().post(f"{_place(rollout_id)}/resume", None, RolloutView), "resumed")


@rollout.command("stop")
@_rollout_argument
@output.with_target
def stop(target: Target, rollout_id: str) -> output.CommandResult:
    """End a roll-out. Updates that run go on; runners that wait are not updated."""
    return _changed(target.api().post(f"{_place(rollout_id)}/stop", None, RolloutView), "stopped")


def _place(rollout_id: str) -> str:
    return f"/rollouts/{segment(rollout_id)}"


def _changed(found: RolloutView, word: str) -> output.CommandResult:
    return output.message(found, f"{word} the roll-out of {found.version}: {summary(found)}")


POLL_SECONDS = 1.0
_MARKS = {
    "waiting": ("·", "bright_black"),
    "updating": ("…", "blue"),
    "updated": ("✓", "green"),
    "failed": ("✗", "red"),
    "by_hand": ("!", "yellow"),
    "skipped": ("-", "bright_black"),
}


def summary(rollout: RolloutSummary) -> str:
    """Return how far a roll-out has come, in one line."""
    counts = rollout.counts
    words = [f"{counts.updated} of {sum(msgspec.structs.astuple(counts))} updated"]
    if rollout.wave is not None:
        words.insert(0, f"wave {rollout.wave + 1} of {rollout.waves}")
    words += [
        f"{getattr(counts, name)} {name.replace('_', ' ')}"
        for name in ("failed", "by_hand", "skipped")
        if getattr(counts, name)
    ]
    return ", ".join(words)


def print_rollout(rollout: RolloutView) -> None:
    """Print a roll-out with its waves."""
    by = "by itself, when the release was published" if rollout.is_automatic else f"by {rollout.started_by_name}"
    runners = rollout.runners
    stopped = next((each.path for each in runners if each.runner_id == rollout.stop_runner_id), None)
    reason = ": ".join(each for each in (stopped, rollout.stop_reason) if each)
    output.facts(
        [
            ("roll-out", f"{rollout.version} ({rollout.id})"),
            ("status", rollout.status),
            ("reason", reason or None),
            ("progress", summary(rollout)),
            ("started", f"{output.age(rollout.started_at)} {by}"),
            ("ended", output.age(rollout.ended_at) if rollout.ended_at else None),
        ]
    )
    for wave in sorted({each.wave for each in runners if each.wave is not None and each.status != "by_hand"}):
        members = [each for each in runners if each.wave == wave and each.status != "by_hand"]
        _title(wave_title(wave))
        _members(members, rollout.version)
    print_by_hand((each, each.words) for each in runners if each.status == "by_hand")


def wave_title(wave: int) -> str:
    return "First, alone" if wave == 0 else f"Wave {wave + 1}"


def print_plan(preview: RolloutPreview) -> None:
    """Print what a roll-out would do."""
    planned = preview.runners
    for wave in sorted({each.wave for each in planned if each.wave is not None}):
        _title(wave_title(wave))
        for each in planned:
            if each.wave == wave:
                click.echo(f"  {output.text(each.path)}  {output.text(each.from_version)} → {preview.version}")
    print_by_hand((each, each.reason) for each in planned if each.wave is None)


def print_by_hand(members: Iterable[tuple[RolloutRunner | PlannedRunner, str]]) -> None:
    """Print the runners that people have to update, each with the reason and the command."""
    for index, (each, words) in enumerate(members):
        if not index:
            _title("By hand")
        version = output.text(each.from_version or "unknown version")
        click.echo(f"  {output.text(each.path)}  {version}  {output.text(words)}")
        if each.command:
            click.echo(f"    {output.text(each.command)}")


def print_breaking(changes: Iterable[BreakingChange]) -> None:
    """Print what is breaking on the way, to standard error."""
    for each in changes:
        words = output.text(each.words or f"see `terracrew release show {each.version}`")
        click.echo(f"{click.style(each.version, bold=True)} is breaking. Before the update: {words}", err=True)


def follow(api: "Api", rollout_id: str, *, is_shown: bool) -> RolloutView:
    """Wait until a roll-out rolls no more, and return it. What changes about its runners is printed to standard error."""
    deadline.wait_out(api)
    seen: dict[str, str] = {}
    while True:
        rollout = api.get(f"/rollouts/{rollout_id}", RolloutView)
        for each in rollout.runners:
            if is_shown and each.status not in ("waiting", "by_hand") and seen.get(each.path) != each.status:
                click.echo(_line(each, rollout.version), err=True)
            seen[each.path] = each.status
        if rollout.status != "rolling":
            return rollout
        time.sleep(POLL_SECONDS)


def _members(members: Iterable[RolloutRunnerView], version: str) -> None:
    for each in members:
        click.echo(f"  {_line(each, version)}")


def _line(runner: RolloutRunnerView, version: str) -> str:
    mark, colour = _MARKS[runner.status]
    words = runner.step or runner.words
    job = f"job #{runner.job_number}" if runner.job_number else ""
    parts = (
        f"{output.text(runner.path)}",
        f"{output.text(runner.from_version)} → {version}",
        runner.status,
        output.text(words) if words else "",
        job,
    )
    return f"{click.style(mark, fg=colour)} {'  '.join(each for each in parts if each)}"


def _title(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}")
