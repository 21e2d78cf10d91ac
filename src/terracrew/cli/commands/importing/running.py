"""Runs an import: shows its plan, asks, makes it, and reports."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from terracrew.cli.commands.importing import execution as executing
from terracrew.cli.commands.importing import existing, finding, report
from terracrew.cli.commands.importing.execution import ReadState
from terracrew.cli.commands.importing.existing import Decisions
from terracrew.cli.commands.importing.model import ImportedModule, ImportPlan, StateOrigin
from terracrew.cli.printing import output, progress
from terracrew.errors import Invalid

if TYPE_CHECKING:
    from terracrew.client.http import Api


def run(
    api: "Api",
    plan: ImportPlan,
    read_state: ReadState,
    *,
    only_plan: bool,
    yes: bool,
    lock_source: Callable[[ImportedModule], str] | None = None,
) -> output.CommandResult:
    """Show a plan, and make it if a person says yes.

    The exit code is 1 if something failed, or if nothing of the source can be imported.
    """
    with progress.of_bytes() as show:
        show("reading what is here", 0, 0)
        decisions = existing.decide(plan, finding.existing(api, plan, lambda words: show(words, 0, 0)))
    is_json = output.wants_json()
    if not is_json:
        report.show_plan(plan, decisions)
    if only_plan or not (decisions.has_work or lock_source is not None):
        words, code = _nothing_done(decisions, only_plan=only_plan)
        return output.CommandResult(report.as_json(plan, decisions, None), lambda: output.note(words), code)
    if not yes and is_json:
        raise Invalid("with --json, nobody sees what would be made: add --plan to look first, or --yes")
    if not yes:
        output.ask(f"Import {output.text(plan.source)}?", "Nothing was changed.")
    with progress.of_bytes() as show:
        try:
            done = executing.execute(
                api, decisions, read_state, lock_source=lock_source, report=lambda words: show(words, 0, 0)
            )
        except KeyboardInterrupt:
            output.note(report.CONTINUE)
            raise
    code = done.ended_by.exit_code if done.ended_by is not None else int(done.is_failed)
    return output.CommandResult(
        report.as_json(plan, decisions, done), lambda: report.show_execution(plan, decisions, done), code
    )


def _nothing_done(decisions: Decisions, *, only_plan: bool) -> tuple[str, int]:
    """Return the last line and the exit code of a run that changes nothing."""
    if only_plan or not decisions.modules:
        return "Nothing was changed.", 0
    if decisions.refused == len(decisions.modules):
        return "Nothing was changed: none of it can be imported, for the reasons above.", 1
    return "Everything that can be imported is here already.", 0


def no_state(origin: StateOrigin) -> bytes:
    """Read the state of a source that has none."""
    raise Invalid(f"{origin.reference} has no state")
