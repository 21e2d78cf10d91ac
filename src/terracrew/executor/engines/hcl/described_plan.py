"""Reads what a plan would do to each attribute from the document that `show -json PLAN` prints."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import shown_facts
from terracrew.executor.engines.plan_summary import Action
from terracrew.plan_diff.document import PlanDescription, PlannedOutput
from terracrew.plan_diff.resources import PlannedResource, Values

_NO_MARK = msgspec.Raw(b"null")


class _DescribedImport(msgspec.Struct):
    id: str | None = None


class _DescribedChange(msgspec.Struct):
    """The values stay undecoded until they are compared."""

    actions: tuple[str, ...]
    before: msgspec.Raw = _NO_MARK
    after: msgspec.Raw = _NO_MARK
    after_unknown: msgspec.Raw = _NO_MARK
    before_sensitive: msgspec.Raw = _NO_MARK
    after_sensitive: msgspec.Raw = _NO_MARK
    replace_paths: list[list[str | int]] = []
    importing: _DescribedImport | None = None


class _DescribedResource(msgspec.Struct):
    address: str
    change: _DescribedChange
    mode: str = "managed"
    action_reason: str = ""
    previous_address: str = ""
    index: str | int | None = None
    deposed: str = ""


class _DescribedPlan(msgspec.Struct):
    resource_changes: list[_DescribedResource] = []
    resource_drift: list[_DescribedResource] = []
    output_changes: dict[str, _DescribedChange] = {}


_plan = msgspec.json.Decoder(_DescribedPlan)


def read(printed: bytes) -> PlanDescription:
    """Raises Invalid if this is not the description of a plan."""
    plan = _decoded(printed)
    outputs = [
        PlannedOutput(name, _values(change)())
        for name, change in plan.output_changes.items()
        if change.actions in shown_facts.ACTIONS
    ]
    return PlanDescription(
        [planned for each in plan.resource_changes for planned in _planned(each)],
        outputs,
        [planned for each in plan.resource_drift for planned in _planned(each)],
        len(printed),
    )


def every_value(printed: bytes) -> Iterator[tuple[str, Values]]:
    """Yield the address and the values of every resource, also of one that does not change, and those of outputs without an address.
    Raises Invalid if this is not the description of a plan."""
    plan = _decoded(printed)
    for each in (*plan.resource_changes, *plan.resource_drift):
        yield each.address, _values(each.change)()
    for change in plan.output_changes.values():
        yield "", _values(change)()


def _decoded(printed: bytes) -> _DescribedPlan:
    try:
        return _plan.decode(shown_facts.document(printed))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the engine described its plan in a way that cannot be read: {error}") from error


def _planned(found: _DescribedResource) -> Iterator[PlannedResource]:
    change = found.change
    importing = change.importing
    is_imported = importing is not None
    actions = shown_facts.actions(found.mode, change.actions, found.previous_address, is_imported=is_imported)
    for action in actions:
        yield PlannedResource(
            address=found.address,
            action=action,
            read_values=_values(change if len(actions) == 1 else _half(change, action)),
            reason=shown_facts.REASONS.get(found.action_reason, found.action_reason),
            key=found.index,
            replace_paths=change.replace_paths,
            is_create_first=change.actions[:1] == ("create",),
            previous_address=found.previous_address,
            import_id=None if importing is None else importing.id or "",
            deposed=found.deposed,
        )


def _half(change: _DescribedChange, action: Action) -> _DescribedChange:
    """Return what becomes of the old or of the new one of a resource that is replaced without being destroyed."""
    if action == "forget":
        return _DescribedChange(change.actions, before=change.before, before_sensitive=change.before_sensitive)
    return _DescribedChange(
        change.actions,
        after=change.after,
        after_unknown=change.after_unknown,
        after_sensitive=change.after_sensitive,
    )


def _values(change: _DescribedChange) -> Callable[[], Values]:
    def read() -> Values:
        decode: Callable[[msgspec.Raw], Any] = msgspec.json.decode
        return Values(
            decode(change.before),
            decode(change.after),
            decode(change.after_unknown),
            decode(change.before_sensitive),
            decode(change.after_sensitive),
        )

    return read
