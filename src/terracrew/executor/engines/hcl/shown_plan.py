"""Reads what a plan would do from the document that `show -json PLAN` prints: facts to count, and each attribute."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.plan_summary import Action, PlanFacts, PlannedChange
from terracrew.plan_diff.document import PlanDescription, PlannedOutput
from terracrew.plan_diff.resources import PlannedResource, Values
from terracrew.protocol.events import FailedCheck

T = TypeVar("T")

ACTIONS: dict[tuple[str, ...], Action] = {
    ("create",): "create",
    ("update",): "update",
    ("delete",): "delete",
    ("delete", "create"): "replace",
    ("create", "delete"): "replace",
    ("read",): "read",
    ("forget",): "forget",
}
FORGOTTEN_AND_CREATED: dict[tuple[str, ...], tuple[Action, Action]] = {
    ("forget", "create"): ("forget", "create"),
    ("create", "forget"): ("forget", "create"),
}
"""What becomes of a resource that is replaced and may not be destroyed: the old one is forgotten, as the engine counts it."""
REASONS = {
    "replace_because_tainted": "tainted",
    "replace_because_cannot_update": "cannot_update",
    "replace_by_request": "requested",
    "replace_by_triggers": "replace_triggered_by",
}
"""The reasons that have other words in a summary."""


_NO_MARK = msgspec.Raw(b"null")


class _PlannedImport(msgspec.Struct):
    id: str | None = None


class _ShownChange(msgspec.Struct):
    """The values stay undecoded until they are compared."""

    actions: tuple[str, ...]
    before: msgspec.Raw = _NO_MARK
    after: msgspec.Raw = _NO_MARK
    after_unknown: msgspec.Raw = _NO_MARK
    before_sensitive: msgspec.Raw = _NO_MARK
    after_sensitive: msgspec.Raw = _NO_MARK
    replace_paths: list[list[str | int]] = []
    importing: _PlannedImport | None = None


class _ShownResourceChange(msgspec.Struct):
    address: str
    change: _ShownChange
    mode: str = "managed"
    action_reason: str = ""
    previous_address: str = ""
    index: str | int | None = None
    deposed: str = ""

    @property
    def planned(self) -> tuple[Action, ...]:
        """What the plan does to the resource; nothing if that is nothing that is counted or shown."""
        actions = self.change.actions
        if self.mode == "data" and actions == ("delete",):
            return ()  # nothing is destroyed, and the engine does not count it
        if found := ACTIONS.get(actions):
            return (found,)
        if both := FORGOTTEN_AND_CREATED.get(actions):
            return both
        # Nothing changes but its address, or who manages it.
        return ("import",) if self.change.importing is not None else ("move",) if self.previous_address else ()

    @property
    def reason(self) -> str:
        return REASONS.get(self.action_reason, self.action_reason)

    @property
    def import_id(self) -> str | None:
        return None if self.change.importing is None else self.change.importing.id or ""


class _ShownResource(msgspec.Struct):
    mode: str = "managed"


class _ShownModule(msgspec.Struct):
    resources: list[_ShownResource] = []
    child_modules: list["_ShownModule"] = []


class _ShownValues(msgspec.Struct):
    root_module: _ShownModule = msgspec.field(default_factory=_ShownModule)


class _ShownState(msgspec.Struct):
    values: _ShownValues = msgspec.field(default_factory=_ShownValues)


class _ShownProblem(msgspec.Struct):
    message: str = ""


class _ShownAddress(msgspec.Struct):
    kind: str = ""
    to_display: str = ""


class _ShownCheckInstance(msgspec.Struct):
    address: _ShownAddress = msgspec.field(default_factory=_ShownAddress)
    status: str = ""
    problems: list[_ShownProblem] = []


class _ShownCheck(msgspec.Struct):
    address: _ShownAddress
    status: str = ""
    instances: list[_ShownCheckInstance] = []


class _ShownChanges(msgspec.Struct):
    resource_changes: list[_ShownResourceChange] = []
    resource_drift: list[_ShownResourceChange] = []
    output_changes: dict[str, _ShownChange] = {}


class _ShownPlan(_ShownChanges, kw_only=True):
    format_version: str
    prior_state: _ShownState = msgspec.field(default_factory=_ShownState)
    checks: list[_ShownCheck] = []


_changes, _plan = msgspec.json.Decoder(_ShownChanges), msgspec.json.Decoder(_ShownPlan)


def facts(printed: bytes) -> PlanFacts:
    """Raises Invalid if this is not the description of a plan."""
    plan = _decoded(_plan, printed)
    outputs = {name: ACTIONS.get(one.actions) for name, one in plan.output_changes.items()}
    changes = [
        PlannedChange(each.address, action, each.reason, each.previous_address, each.import_id)
        for each in plan.resource_changes
        for action in each.planned
    ]
    return PlanFacts(
        changes=changes,
        outputs={name: action for name, action in outputs.items() if action},
        vanished=frozenset(each.address for each in plan.resource_drift if each.change.actions == ("delete",)),
        refreshed=_count(plan.prior_state.values.root_module),
        checks=list(_failed_checks(plan.checks)),
    )


def description(printed: bytes) -> PlanDescription:
    """Raises Invalid if this is not the description of a plan."""
    plan = _decoded(_changes, printed)
    outputs = [
        PlannedOutput(name, _values(change)())
        for name, change in plan.output_changes.items()
        if change.actions in ACTIONS
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
    plan = _decoded(_changes, printed)
    for each in (*plan.resource_changes, *plan.resource_drift):
        yield each.address, _values(each.change)()
    for change in plan.output_changes.values():
        yield "", _values(change)()


def document(printed: bytes) -> bytes:
    """Return the line with the document. The engine prints warnings about its own configuration before it."""
    return printed if printed.startswith(b"{") else printed[printed.find(b"\n{") + 1 :]


def _decoded(decoder: msgspec.json.Decoder[T], printed: bytes) -> T:
    try:
        return decoder.decode(document(printed))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the engine described its plan in a way that cannot be read: {error}") from error


def _planned(found: _ShownResourceChange) -> Iterator[PlannedResource]:
    change = found.change
    for action in found.planned:
        yield PlannedResource(
            address=found.address,
            action=action,
            read_values=_values(change if len(found.planned) == 1 else _half(change, action)),
            reason=found.reason,
            key=found.index,
            replace_paths=change.replace_paths,
            is_create_first=change.actions[:1] == ("create",),
            previous_address=found.previous_address,
            import_id=found.import_id,
            deposed=found.deposed,
        )


def _half(change: _ShownChange, action: Action) -> _ShownChange:
    """Return what becomes of the old or of the new one of a resource that is replaced without being destroyed."""
    if action == "forget":
        return _ShownChange(change.actions, before=change.before, before_sensitive=change.before_sensitive)
    return _ShownChange(
        change.actions,
        after=change.after,
        after_unknown=change.after_unknown,
        after_sensitive=change.after_sensitive,
    )


def _values(change: _ShownChange) -> Callable[[], Values]:
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


def _failed_checks(found: list[_ShownCheck]) -> Iterator[FailedCheck]:
    """Yield what failed in `check` blocks. If another condition fails, there is no plan."""
    for check in found:
        for each in check.instances if check.address.kind == "check" else ():
            if each.status in ("fail", "error"):
                address = each.address.to_display or check.address.to_display
                yield from (FailedCheck(address, one.message) for one in each.problems or [_ShownProblem()])


def _count(module: _ShownModule) -> int:
    """Count the managed resources of a state, from which those that no longer exist were already removed."""
    return sum(one.mode == "managed" for one in module.resources) + sum(map(_count, module.child_modules))
