"""Shows what an import is going to make, and what became of it."""

from collections.abc import Iterator
from typing import Any

import click

from terracrew.api.inputs import NewInput
from terracrew.cli.commands.importing.execution import Execution
from terracrew.cli.commands.importing.existing import Decisions, ModuleDecision
from terracrew.cli.commands.importing.model import ImportPlan
from terracrew.cli.printing import output
from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, RegistrySource, Source

MAX_NAMED_REMARKS = 200
CONTINUE = "The import has ended here. Run the same command again to continue: nothing is made twice."
_ACTIONS = {"create": "create", "complete": "complete", "exists": "exists already", "refused": "cannot be made"}


def show_plan(plan: ImportPlan, decisions: Decisions) -> None:
    """Print what would be made as a table, and below it, what cannot be taken over."""
    rows = [(each.group.path or "/", "group", "", *_of_group(each.is_new, each.inputs)) for each in decisions.groups]
    rows += [(each.module.path or "—", each.module.origin, *_of_module(each)) for each in decisions.modules]
    columns = ("PATH", "FROM", "SOURCE", "INPUTS", "STATE", "ACTION")
    output.table(columns, rows, empty=f"nothing to import: {plan.source}")
    remarks = list(_remarks(plan, decisions))
    if remarks:
        output.note("Not taken over:")
        for each in remarks[:MAX_NAMED_REMARKS]:
            output.note(f"  {output.text(each)}")
        if len(remarks) > MAX_NAMED_REMARKS:
            output.note(f"  … and {len(remarks) - MAX_NAMED_REMARKS} more (--json has all of them)")
    show_by_hand(decisions)


def show_by_hand(decisions: Decisions) -> None:
    """Print the commands that a person has to run, because the source does not give out a value."""
    found = by_hand(decisions)
    if found:
        output.note("To be set by hand, because the source does not give out the values:")
        for each in found:
            output.note(f"  {output.text(each)}")


def by_hand(decisions: Decisions) -> list[str]:
    return [each.command for place in (*decisions.groups, *decisions.modules) for each in place.by_hand]


def _remarks(plan: ImportPlan, decisions: Decisions) -> Iterator[str]:
    yield from plan.remarks
    for group in plan.groups:
        yield from (f"{group.path or '/'}: {each}" for each in group.remarks)
    for each in decisions.modules:
        name = f"{each.module.path} ({each.module.origin})" if each.module.path else each.module.origin
        if each.action == "refused":
            yield f"{name}: {each.reason}"
            continue
        if each.state.reason:
            yield f"{name}: {each.state.reason}"
        yield from (f"{name}: {remark}" for remark in each.module.remarks)


def _of_group(is_new: bool, inputs: tuple[NewInput, ...]) -> tuple[Any, ...]:
    return (len(inputs) or "", "", "create" if is_new else "complete" if inputs else "exists already")


def _of_module(each: ModuleDecision) -> tuple[Any, ...]:
    state = each.module.state
    words = f"serial {state.serial}" if state is not None and each.state.action == "import" else ""
    source = "" if each.action == "refused" else source_words(each.module.new.source)
    return (source, len(each.inputs) or "", words, _ACTIONS[each.action])


def source_words(source: Source) -> str:
    """Return where a module comes from, in one line."""
    match source:
        case GitSource():
            place = source.url
        case LocalSource():
            place = source.path
        case RegistrySource():
            place = source.address
        case ArchiveSource():
            place = "upload"
        case _:
            place = source.plugin
    return f"{place}//{source.subdirectory}" if source.subdirectory else place


def as_json(plan: ImportPlan, decisions: Decisions, execution: Execution | None) -> dict[str, Any]:
    """Return the report for programs: what was decided, what a person has to do, and what became of it."""
    return {
        "source": plan.source,
        "is_executed": execution is not None,
        "groups": [
            {
                "path": each.group.path,
                "action": "create" if each.is_new else "complete" if each.inputs else "exists",
                "inputs": [_input(one) for one in each.inputs],
                "remarks": list(each.group.remarks),
            }
            for each in decisions.groups
        ],
        "modules": [
            {
                "path": each.module.path,
                "from": each.module.origin,
                "source": source_words(each.module.new.source),
                "action": each.action,
                "reason": each.reason,
                "inputs": [_input(one) for one in each.inputs],
                "steps": list(each.steps),
                "state": {
                    "action": each.state.action,
                    "reason": each.state.reason,
                    "serial": each.module.state.serial if each.module.state is not None else None,
                },
                "by_hand": [one.command for one in each.by_hand],
                "remarks": list(each.module.remarks),
            }
            for each in decisions.modules
        ],
        "remarks": list(plan.remarks),
        "by_hand": by_hand(decisions),
        "next_steps": list(plan.next_steps),
        "outcomes": [] if execution is None else list(execution.outcomes),
        "ended_by": execution.ended_by.message if execution is not None and execution.ended_by is not None else "",
    }


def _input(each: NewInput) -> dict[str, str]:
    return {"target": each.target, "name": each.name}


def show_execution(plan: ImportPlan, decisions: Decisions, execution: Execution) -> None:
    """Print what was made of each place, and what failed."""
    for each in execution.outcomes:
        if each.made:
            click.echo(f"{each.path or '/'}: {output.text(list(each.made))}")
        for failure in each.failures:
            click.echo(f"{each.path or '/'}: {click.style('failed', fg='red')}: {output.text(failure)}", err=True)
    if execution.ended_by is not None:
        output.note(CONTINUE)
    elif execution.is_failed:
        output.note(
            "What failed is not complete. A module whose state is missing stays locked. Run the same command again when the cause "
            "is gone: nothing is made twice."
        )
    show_by_hand(decisions)
    for each in plan.next_steps:
        output.note(f"Next: {each}")
