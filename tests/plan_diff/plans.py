"""Builds plans for tests of their diffs."""

from typing import Any

from terracrew.plan_diff.document import DiffDocument, PlanDescription, build
from terracrew.plan_diff.model import AttributeDiff, ResourceAction, ResourceDiff
from terracrew.plan_diff.resources import PlannedResource, Values, diff


def unmasked(text: str) -> str:
    return text


def planned(
    before: Any = None, after: Any = None, *, action: ResourceAction = "update", address: str = "a.b", **more: Any
) -> PlannedResource:
    marks = {name: more.pop(name, None) for name in ("unknown", "before_sensitive", "after_sensitive")}
    return PlannedResource(address, action, lambda: Values(before, after, **marks), **more)


def compared(before: Any, after: Any, **more: Any) -> ResourceDiff:
    return diff(planned(before, after, **more), unmasked)


def attributes(before: Any, after: Any, **more: Any) -> dict[str, AttributeDiff]:
    return {each.name: each for each in compared(before, after, **more).attributes}


def document(*resources: PlannedResource, **more: Any) -> DiffDocument:
    return DiffDocument(build(PlanDescription(resources, **more), unmasked))
