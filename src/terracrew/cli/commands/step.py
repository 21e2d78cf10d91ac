"""`terracrew step`: what groups and modules add to the steps of their jobs: hooks, and flags of the engine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from terracrew.api.steps import NewStepSettings, StepSettings
from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound
from terracrew.protocol.spec import Hook, Step

if TYPE_CHECKING:
    from terracrew.client.http import Api

STEPS = tuple(step.value for step in Step if step.is_hookable)
_place = click.argument("place", metavar="PLACE", shell_complete=name_completion.places)
_step = click.argument("name", metavar="STEP", type=click.Choice(STEPS))


@click.group(cls=LazyGroup)
def step() -> None:
    """Add hooks and flags to the steps of jobs.

    PLACE is a module, a group (for all modules in and below it), or `/`, the organization. The hooks of a group run around those
    of what is below it.
    """


@step.command("list")
@_place
@click.option("--own", is_flag=True, help="Only what PLACE itself adds, without the groups above it.")
@output.with_target
def list_steps(target: Target, place: str, own: bool) -> output.CommandResult:
    """List what is added to the steps of jobs in PLACE."""
    api = target.api()
    items = _added(api, _path(api, place), is_inherited=not own)
    rows = [
        (
            item.step,
            item.path or "/",
            what,
            output.text(content),
            f"{item.changed_by}, {output.age(item.changed_at)}",
        )
        for item in items
        for what, content in _contents(item)
    ]
    return output.listing(
        items, ("STEP", "OF", "WHAT", "CONTENT", "SET BY"), rows, empty=f"nothing is added to the steps of {place}"
    )


@step.command(
    "set",
    epilog=output.examples(
        "terracrew step set platform plan --after ./check.sh",
        "terracrew step set platform/network apply --flag tofu:-parallelism=5",
    ),
)
@_place
@_step
@click.option(
    "--before", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A script to run before it."
)
@click.option("--after", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A script to run after it.")
@click.option("--before-arg", multiple=True, metavar="ARG", help="A command to run before it; once for each argument.")
@click.option("--after-arg", multiple=True, metavar="ARG", help="A command to run after it; once for each argument.")
@click.option("--no-before", is_flag=True, help="Run nothing before it any more.")
@click.option("--no-after", is_flag=True, help="Run nothing after it any more.")
@click.option(
    "--flag", "flags", multiple=True, metavar="ENGINE:FLAG", help="A flag, such as `tofu:-parallelism=5`. Replaces all."
)
@click.option("--no-flags", is_flag=True, help="Add no flags any more.")
@output.with_target
def set_step(target: Target, place: str, name: str, **given: Any) -> output.CommandResult:
    """Change what PLACE adds to STEP. Options that are not given change nothing.

    A script begins with a line such as `#!/bin/sh`. If a hook fails, the job fails. The variable TERRACREW_STEP_STATUS tells a
    hook after the step whether it SUCCEEDED or FAILED. TERRACREW_PLAN_JSON names a file with the plan, without sensitive values, to
    hooks after plan and before apply or destroy.
    """
    api = target.api()
    path = _path(api, place)
    known = next((each for each in _added(api, path, is_inherited=False) if each.step is Step(name)), NewStepSettings())
    before = NewStepSettings(known.before, known.after, known.flags)
    wanted = replace(before, **_hook("before", given), **_hook("after", given))
    if given["flags"] or given["no_flags"]:
        wanted = replace(wanted, flags=_flags(given["flags"]))
    if wanted == before:
        raise Invalid("no option was given that changes anything: see `terracrew step set --help`")
    made = api.replace(f"{path}/steps/{name}", wanted, StepSettings)
    added = ", ".join(what for what, _ in _contents(made)) or "nothing"
    return output.message(made, f"{place} adds to {name}: {added}")


@step.command("clear")
@_place
@_step
@output.with_target
def clear_step(target: Target, place: str, name: str) -> output.CommandResult:
    """Remove everything that PLACE itself adds to STEP."""
    api = target.api()
    api.delete(f"{_path(api, place)}/steps/{name}")
    return output.message({"cleared": name, "place": place}, f"{place} adds nothing to {name} any more")


def _path(api: "Api", place: str) -> str:
    """Return the path in the API of a group or a module. They never share a path in the tree."""
    if place.startswith("mod_"):
        return f"/modules/{segment(place)}"
    try:
        api.get(f"/groups/{segment(place)}")
        return f"/groups/{segment(place)}"
    except NotFound:
        api.get(f"/modules/{segment(place)}")
        return f"/modules/{segment(place)}"


def _added(api: "Api", path: str, *, is_inherited: bool) -> list[StepSettings]:
    return api.get(f"{path}/steps", list[StepSettings], inherited=is_inherited or None)


def _hook(when: str, given: dict[str, Any]) -> dict[str, Hook | None]:
    """Return the hook that the options ask for, as a field of the request; empty if they say nothing about it."""
    script, command = given[when], list(given[f"{when}_arg"])
    if sum(map(bool, (script, command, given[f"no_{when}"]))) > 1:
        raise Invalid(f"--{when}, --{when}-arg and --no-{when} exclude each other")
    if given[f"no_{when}"]:
        return {when: None}
    if command:
        return {when: Hook(command=command)}
    return {when: Hook(script.read_text())} if script else {}


def _flags(given: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in given:
        engine, colon, flag = each.partition(":")
        if not colon or not engine.isalnum():
            raise Invalid(f"--flag {each!r} does not name an engine: write `tofu:-parallelism=5`")
        found.setdefault(engine, []).append(flag)
    return found


def _contents(item: StepSettings) -> list[tuple[str, str]]:
    """Return what is added, one pair for each hook and engine: what it is, and its content in one line."""
    found: list[tuple[str, str]] = []
    for when, hook in (("before", item.before), ("after", item.after)):
        if hook is not None:
            lines = hook.script.splitlines()
            found.append((f"hook {when}", f"{len(lines)} lines, {lines[0]}" if lines else " ".join(hook.command)))
    return [*found, *((f"flags of {engine}", " ".join(flags)) for engine, flags in item.flags.items())]
