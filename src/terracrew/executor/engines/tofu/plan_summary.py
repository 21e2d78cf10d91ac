"""Reads what a plan would do from the lines of JSON that OpenTofu writes beside its printed output."""

from pathlib import Path
from typing import Literal

import msgspec

from terracrew import plan_words
from terracrew.attempt.engine_directory import read_produced
from terracrew.protocol.events import MAX_RECORD_BYTES, PlanSummary, ResourceChange

Action = Literal["create", "update", "delete", "replace", "read", "import", "move", "forget"]
_MAX_SUMMARY_BYTES = MAX_RECORD_BYTES - (64 << 10)
_ACTIONS: dict[str, Action] = {
    "create": "create",
    "update": "update",
    "delete": "delete",
    "replace": "replace",
    "read": "read",
    "import": "import",
    "move": "move",
    "remove": "forget",  # the engine uses both words for the same action
}


class _PlannedResource(msgspec.Struct):
    addr: str


class _Importing(msgspec.Struct):
    id: str = ""


class _PlannedChange(msgspec.Struct):
    resource: _PlannedResource
    action: str
    reason: str = ""
    previous_resource: _PlannedResource | None = None
    importing: _Importing | None = None


class _Counts(msgspec.Struct):
    add: int = 0
    change: int = 0
    remove: int = 0


class _OutputChange(msgspec.Struct):
    action: str = ""


class _Hook(msgspec.Struct):
    resource: _PlannedResource | None = None


class _Message(msgspec.Struct):
    type: str = ""
    hook: _Hook | None = None
    change: _PlannedChange | None = None
    changes: _Counts | None = None
    outputs: dict[str, _OutputChange] | None = None


class _StateResource(msgspec.Struct):
    mode: str
    instances: list[msgspec.Raw] = []


class _State(msgspec.Struct):
    resources: list[_StateResource] = []


_message = msgspec.json.Decoder(_Message)
_state = msgspec.json.Decoder(_State)


def summarize(path: Path, state: bytes | None) -> PlanSummary:
    """Return the summary of a plan. Each resource is counted once: one that is replaced is not counted as added and destroyed."""
    changes: list[_PlannedChange] = []
    counts, outputs = _Counts(), dict[str, str]()
    refreshed, vanished = set[str](), set[str]()
    for line in read_produced(path).splitlines():
        message = _message.decode(line)
        match message.type:
            case "planned_change" if message.change and message.change.action in _ACTIONS:
                changes.append(message.change)
            case "refresh_start" if message.hook and message.hook.resource:
                refreshed.add(message.hook.resource.addr)
            case "resource_drift" if message.change and message.change.action == "delete":
                vanished.add(message.change.resource.addr)
            case "change_summary":
                counts = message.changes or counts
            case "outputs":
                outputs = {name: one.action for name, one in (message.outputs or {}).items() if one.action != "noop"}
            case _:
                pass
    replaced = sum(change.action == "replace" for change in changes)
    touched = sum(
        change.action in ("update", "delete", "replace", "remove") and change.importing is None for change in changes
    )
    # If the module stores its state elsewhere, the state is not known here, and the resources that were refreshed are counted.
    existing = max((len(refreshed) if state is None else _count(state)) - len(vanished), 0)
    return _bounded(
        PlanSummary(
            add=max(counts.add - replaced, 0),
            change=counts.change,
            destroy=max(counts.remove - replaced, 0),
            replace=replaced,
            imports=sum(change.importing is not None for change in changes),
            moves=sum(change.previous_resource is not None for change in changes),
            forgets=sum(change.action == "remove" for change in changes),
            unchanged=max(existing - touched, 0),
            existing=existing,
            resources=[_resource(change) for change in changes],
            outputs=outputs,
        )
    )


def _resource(change: _PlannedChange) -> ResourceChange:
    detail = plan_words.reason(change.reason)
    if change.previous_resource:
        detail = f"moved from {change.previous_resource.addr}"
    elif change.importing:
        detail = f"imported from {change.importing.id}"
    return ResourceChange(change.resource.addr, _ACTIONS[change.action], detail)


def _count(state: bytes | None) -> int:
    """Return how many managed resources there are now."""
    resources = _state.decode(state).resources if state else []
    return sum(len(resource.instances) for resource in resources if resource.mode == "managed")


def _bounded(summary: PlanSummary) -> PlanSummary:
    """Shorten the list of resources until the summary fits into an event. The counts stay complete, and the log has all resources."""
    while summary.resources and len(msgspec.json.encode(summary)) > _MAX_SUMMARY_BYTES:
        summary = msgspec.structs.replace(summary, resources=summary.resources[: len(summary.resources) // 2])
    return summary
