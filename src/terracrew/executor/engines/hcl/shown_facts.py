"""Reads what a plan would do from the document that `show -json PLAN` prints."""

from collections.abc import Iterator

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.plan_summary import Action, PlanFacts, PlannedChange
from terracrew.protocol.events import FailedCheck

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


class _ShownImport(msgspec.Struct):
    id: str = ""


class _ShownChange(msgspec.Struct):
    actions: tuple[str, ...]
    importing: _ShownImport | None = None


class _ShownResourceChange(msgspec.Struct):
    address: str
    change: _ShownChange
    mode: str = "managed"
    action_reason: str = ""
    previous_address: str = ""


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


class _ShownPlan(msgspec.Struct):
    format_version: str
    resource_changes: list[_ShownResourceChange] = []
    resource_drift: list[_ShownResourceChange] = []
    output_changes: dict[str, _ShownChange] = {}
    prior_state: _ShownState = msgspec.field(default_factory=_ShownState)
    checks: list[_ShownCheck] = []


_plan = msgspec.json.Decoder(_ShownPlan)


def read(printed: bytes) -> PlanFacts:
    """Raises Invalid if this is not the description of a plan."""
    try:
        plan = _plan.decode(document(printed))
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the engine described its plan in a way that cannot be read: {error}") from error
    outputs = {name: ACTIONS.get(one.actions) for name, one in plan.output_changes.items()}
    return PlanFacts(
        changes=list(_changes(plan.resource_changes)),
        outputs={name: action for name, action in outputs.items() if action},
        vanished=frozenset(each.address for each in plan.resource_drift if each.change.actions == ("delete",)),
        refreshed=_count(plan.prior_state.values.root_module),
        checks=list(_failed_checks(plan.checks)),
    )


def document(printed: bytes) -> bytes:
    """Return the line with the document. The engine prints warnings about its own configuration before it."""
    return printed if printed.startswith(b"{") else printed[printed.find(b"\n{") + 1 :]


def actions(mode: str, planned: tuple[str, ...], previous_address: str, *, is_imported: bool) -> tuple[Action, ...]:
    """Return what a plan does to a resource; nothing if that is nothing that is counted or shown."""
    if mode == "data" and planned == ("delete",):
        return ()  # nothing is destroyed, and the engine does not count it
    if found := ACTIONS.get(planned):
        return (found,)
    if both := FORGOTTEN_AND_CREATED.get(planned):
        return both
    # Nothing changes but its address, or who manages it.
    return ("import",) if is_imported else ("move",) if previous_address else ()


def _changes(found: list[_ShownResourceChange]) -> Iterator[PlannedChange]:
    for each in found:
        importing = each.change.importing
        known = actions(each.mode, each.change.actions, each.previous_address, is_imported=importing is not None)
        for action in known:
            reason = REASONS.get(each.action_reason, each.action_reason)
            yield PlannedChange(
                each.address, action, reason, each.previous_address, importing.id if importing else None
            )


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
