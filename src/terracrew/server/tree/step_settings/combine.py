"""Combines what the places above a module add to its steps: pure functions."""

from collections.abc import Iterable, Sequence

from terracrew.api.steps import StepSettings
from terracrew.protocol.spec import Step, StepHook


def hooks(found: Sequence[StepSettings]) -> list[StepHook]:
    """Return the hooks in the order in which they run: a group's hooks run around those of what is below it.

    `found` has the highest place first.
    """
    first = [StepHook(each.step, "before", each.before, each.path) for each in found if each.before is not None]
    last = [StepHook(each.step, "after", each.after, each.path) for each in reversed(found) if each.after is not None]
    return first + last


def flags(found: Iterable[StepSettings], engine: str) -> dict[Step, list[str]]:
    """Return the flags of an engine for each step. Those of a lower place come last, so an engine that reads a flag twice uses them."""
    combined: dict[Step, list[str]] = {}
    for each in found:
        if added := each.flags.get(engine):
            combined.setdefault(each.step, []).extend(added)
    return combined
