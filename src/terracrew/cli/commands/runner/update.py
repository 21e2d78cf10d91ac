"""`terracrew runner update`, `configure`, `assign` and `unassign`: updates runners to a release, or changes what they are."""

import sys
from collections.abc import Collection
from typing import get_args

import click
import msgspec

from terracrew.api import fields
from terracrew.api.fleet_jobs import FleetJob
from terracrew.api.pages import Page
from terracrew.api.rollouts import NewRollout, RolloutPreview, RolloutView, RunnerUpdate
from terracrew.api.runners import (
    Assignment,
    AssignTo,
    Configuration,
    ConfigurationChange,
    Level,
    RunnerChange,
    RunnerView,
)
from terracrew.cli.arguments import name_completion, options, settings
from terracrew.cli.arguments.references import api_path
from terracrew.cli.commands import fleet_job
from terracrew.cli.commands.release import rollout as rollout_view
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import details, output
from terracrew.errors import Conflict, Invalid


@click.command(
    "update",
    epilog=output.examples(
        "terracrew runner update team/build",
        "terracrew runner update --all --dry-run",
        "terracrew runner update team/build --max-jobs 4",
    ),
)
@click.argument("path", required=False, shell_complete=name_completion.runners)
@settings.request_options(RunnerChange, own=("is_assigned_to_all_modules", "is_disabled"), without=("service_account",))
@click.option(
    "--all-modules/--not-all-modules",
    "is_assigned_to_all_modules",
    default=None,
    help="Whether all modules of its group may use it.",
)
@click.option("--disable/--enable", "is_disabled", default=None, help="A disabled runner gets no new jobs.")
@click.option("--version", metavar="VERSION", help="Update the runner to this release [the latest].")
@click.option("--all", "is_all", is_flag=True, help="Update all outdated runners that you may change, in waves.")
@options.group("With --all: only runners in this group and below it.", default="")
@click.option("--dry-run", is_flag=True, help="With --all: only print what would be updated, and what by hand.")
@click.option("--accept-breaking", is_flag=True, help="Update also if a release on the way is breaking.")
@click.option("--wait/--no-wait", default=True, help="Whether to follow an update to its end [--wait].")
@click.option("--yes", "-y", is_flag=True, help="With --all: do not ask.")
@output.with_target
def update(
    target: Target,
    path: str | None,
    change: RunnerChange,
    version: str | None,
    is_all: bool,
    group: str,
    dry_run: bool,
    accept_breaking: bool,
    wait: bool,
    yes: bool,
) -> output.CommandResult:
    """Update the runner PATH to the latest release; with options for its fields, change these instead.

    Options that are not given change nothing. The name and the group of a runner never change.
    """
    changes = fields.given(change)
    _check(path, changes, is_all=is_all, is_for_all=bool(group or dry_run or yes), is_for_release=version is not None)
    if is_all:
        return update_all(target, group, accept_breaking=accept_breaking, dry_run=dry_run, yes=yes, wait=wait)
    assert path is not None
    if not changes:
        return update_one(target, path, version, accept_breaking=accept_breaking, wait=wait)
    made = target.api().patch(api_path(path), change, RunnerView)
    return output.message(made, f"updated runner {made.path}: {', '.join(changes)}")


def _check(path: str | None, changes: Collection[str], *, is_all: bool, is_for_all: bool, is_for_release: bool) -> None:
    """Refuse options that do not go together."""
    if is_all and (path or changes or is_for_release):
        raise Invalid(
            "--all updates all outdated runners to the latest release: it takes no PATH, no --version and no fields"
        )
    if not is_all and path is None:
        raise Invalid("name a runner, or use --all for all that are outdated: see `terracrew runner update --help`")
    if not is_all and is_for_all:
        raise Invalid("--group, --dry-run and --yes need --all")
    if changes and is_for_release:
        raise Invalid("--version updates the program of a runner: change its fields with another command")


def _read_levels(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str | None] | None:
    levels = click.Choice(get_args(Level), case_sensitive=False)
    found: dict[str, str | None] = {}
    for text in given:
        category, equals, level = text.partition("=")
        if not category or not equals:
            raise Invalid(f"--log-level {text!r} is not CATEGORY=LEVEL")
        found[category] = levels.convert(level, option, context) if level else None
    return found or None


@click.command("configure")
@click.argument("path", shell_complete=name_completion.runners)
@click.option(
    "--log-level",
    multiple=True,
    callback=_read_levels,
    metavar="CATEGORY=LEVEL",
    help="Trace, Debug, Information, Warning, Error, Critical or None; an empty level removes the category. Can be repeated.",
)
@settings.request_options(ConfigurationChange, own=("log_level",), without=("log_level",))
@click.option("--reset", is_flag=True, help="Remove the whole configuration, so that the runner's own settings apply.")
@output.with_target
def configure(target: Target, path: str, reset: bool, change: ConfigurationChange) -> output.CommandResult:
    """Change settings of all instances of the runner PATH without a restart. Options that are not given change nothing.

    The batch size and the period apply while nobody watches a log; a watched log is sent line by line.
    """
    if reset == bool(fields.given(change)):
        raise Invalid("give the settings to change, or --reset alone")
    wanted = RunnerChange(configuration=None if reset else change)
    found = target.api().patch(api_path(path), wanted, RunnerView)
    configured = details.rows(found.configuration, Configuration) or [("configuration", "its own settings")]
    return output.details(found, [("path", found.path), *configured])


_place_options = options.combine(
    options.group("Everything below this group; '' is the whole organization."),
    options.module("This module."),
    click.option("--all", "is_all", is_flag=True, help="All modules of the runner's own group."),
)


@click.command(
    "assign",
    epilog=output.examples(
        "terracrew runner assign platform/edge --group platform/prod",
        "terracrew runner assign platform/edge --module shop/web",
    ),
)
@click.argument("path", shell_complete=name_completion.runners)
@_place_options
@output.with_target
def assign(target: Target, path: str, group: str | None, module: str | None, is_all: bool) -> output.CommandResult:
    """Let a group, a module or all modules of its own group use the runner PATH."""
    api, place = target.api(), _place(group, module, is_all)
    if place is None:
        made = api.patch(api_path(path), RunnerChange(is_assigned_to_all_modules=True), RunnerView)
    else:
        made = api.post(f"{api_path(path)}/assignments", place, Page[Assignment])
    return output.message(made, f"{path} serves {_words(place)}")


@click.command("unassign")
@click.argument("path", shell_complete=name_completion.runners)
@_place_options
@output.with_target
def unassign(target: Target, path: str, group: str | None, module: str | None, is_all: bool) -> output.CommandResult:
    """Take the runner PATH away from a group, a module, or its own group as a whole. Jobs that it has continue."""
    api, place = target.api(), _place(group, module, is_all)
    if place is None:
        made = api.patch(api_path(path), RunnerChange(is_assigned_to_all_modules=False), RunnerView)
    else:
        api.delete(f"{api_path(path)}/assignments", place)
        made = place
    return output.message(made, f"{path} no longer serves {_words(place)}")


def _place(group: str | None, module: str | None, is_all: bool) -> AssignTo | None:
    """Return the place that is meant; None for the runner's own group as a whole."""
    if (group is not None) + (module is not None) + is_all != 1:
        raise Invalid("give one of --group, --module and --all")
    if module is not None:
        return AssignTo(module, "module")
    return None if group is None else AssignTo(group, "group")


def _words(place: AssignTo | None) -> str:
    return "all modules of its group" if place is None else f"{place.kind} {place.place or '(everything)'}"


def update_one(
    target: Target, path: str, version: str | None, *, accept_breaking: bool, wait: bool
) -> output.CommandResult:
    """Update one runner, and follow its job."""
    api, wanted = target.api(), RunnerUpdate(version=version, accept_breaking=accept_breaking)
    try:
        job = api.post(f"{api_path(path)}/update", wanted, FleetJob)
    except Conflict as refusal:
        if not refusal.details.get("breaking") or output.wants_json() or not sys.stdin.isatty():
            raise
        click.echo(refusal.message, err=True)
        output.ask("Is that done, and shall the runner be updated?", "nothing was updated")
        wanted = msgspec.structs.replace(wanted, accept_breaking=True)
        job = api.post(f"{api_path(path)}/update", wanted, FleetJob)
    output.note(f"updating {job.target_name}: {job.type} #{job.number}")
    if wait:
        return fleet_job.follow_steps(api, job.id)
    return output.message(job, f"`terracrew fleet-job logs {job.number} --follow` shows how far it is")


def update_all(
    target: Target, group: str, *, accept_breaking: bool, dry_run: bool, yes: bool, wait: bool
) -> output.CommandResult:
    """Update all outdated runners that the caller may change, in waves."""
    api = target.api()
    preview = api.get("/rollouts/preview", RolloutPreview, group=group)
    if dry_run:
        return output.CommandResult(preview, lambda: _print_preview(preview))
    updatable = [each for each in preview.runners if each.wave is not None]
    is_json = output.wants_json()
    if not is_json:
        _print_preview(preview)
    if updatable:
        accept_breaking = _confirm(preview, len(updatable), accept_breaking=accept_breaking, yes=yes or is_json)
    elif not preview.runners or not preview.version:
        return output.CommandResult(preview, lambda: None)
    wanted = NewRollout(version=preview.version, group=group, accept_breaking=accept_breaking)
    made = api.post("/rollouts", wanted, RolloutView)
    output.note(f"rolling out {made.version}: `terracrew release rollout show` shows how far it is")
    if wait:
        made = rollout_view.follow(api, made.id, is_shown=not is_json)
    exit_code = 1 if made.status == "stopped" else 0
    return output.CommandResult(made, (lambda: _print_end(made)) if wait else (lambda: None), exit_code)


def _print_end(rollout: RolloutView) -> None:
    click.echo(f"roll-out of {rollout.version} {rollout.status}: {rollout_view.summary(rollout)}")
    if rollout.stop_reason:
        click.echo(output.text(rollout.stop_reason), err=True)
    if rollout.status == "stopped" and rollout.counts.failed:
        output.note("`terracrew release rollout resume` tries the runners that failed again, and goes on")


def _print_preview(preview: RolloutPreview) -> None:
    if not preview.version:
        return click.echo("no release was published yet: there is nothing to update to")
    if not preview.runners:
        return click.echo(f"no runner that you may change is older than {preview.version}")
    click.echo(f"Update to {preview.version}")
    rollout_view.print_plan(preview)
    click.echo()
    if preview.automatic_words:
        output.note(preview.automatic_words)
    return rollout_view.print_breaking(preview.breaking)


def _confirm(preview: RolloutPreview, count: int, *, accept_breaking: bool, yes: bool) -> bool:
    """Return whether breaking releases are accepted, after the person has confirmed the update."""
    is_asked = sys.stdin.isatty() and not yes
    if preview.breaking and not accept_breaking and not is_asked:
        raise Invalid("the update is breaking: do what is said about it, and add --accept-breaking")
    if is_asked:
        question = "Is that done, and shall" if preview.breaking and not accept_breaking else "Shall"
        runners = "1 runner" if count == 1 else f"{count} runners"
        output.ask(f"{question} {runners} be updated?", "nothing was updated")
        return True
    if not yes:
        raise Invalid("there is no terminal to ask on: add --yes to start the updates")
    return accept_breaking
