"""Reads what a plan would do from the events, lines of JSON, that `plan -json-into=FILE` writes beside its printed output."""

from pathlib import Path

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.executor.engines.plan_facts import Action, PlanFacts, PlannedChange

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


class _EventResource(msgspec.Struct):
    addr: str


class _EventImport(msgspec.Struct):
    id: str = ""


class _EventChange(msgspec.Struct):
    resource: _EventResource
    action: str
    reason: str = ""
    previous_resource: _EventResource | None = None
    importing: _EventImport | None = None


class _EventOutput(msgspec.Struct):
    action: str = ""


class _EventHook(msgspec.Struct):
    resource: _EventResource | None = None


class _EventMessage(msgspec.Struct):
    type: str = ""
    hook: _EventHook | None = None
    change: _EventChange | None = None
    outputs: dict[str, _EventOutput] | None = None


_message = msgspec.json.Decoder(_EventMessage)
_MAX_EVENTS_BYTES = 64 << 20
"""The events of a plan name each resource a few times, without its attributes."""


def read(path: Path) -> PlanFacts:
    changes: list[PlannedChange] = []
    outputs = dict[str, str]()
    refreshed, vanished = set[str](), set[str]()
    for line in read_produced(path, _MAX_EVENTS_BYTES).splitlines():
        message = _message.decode(line)
        match message.type:
            case "planned_change" if message.change and (action := _ACTIONS.get(message.change.action)):
                changes.append(_planned(message.change, action))
            case "refresh_start" if message.hook and message.hook.resource:
                refreshed.add(message.hook.resource.addr)
            case "resource_drift" if message.change and message.change.action == "delete":
                vanished.add(message.change.resource.addr)
            case "outputs":
                outputs = {name: one.action for name, one in (message.outputs or {}).items() if one.action != "noop"}
            case _:
                pass
    return PlanFacts(changes, outputs, frozenset(vanished), max(len(refreshed) - len(vanished), 0))


def _planned(change: _EventChange, action: Action) -> PlannedChange:
    return PlannedChange(
        change.resource.addr,
        action,
        change.reason,
        change.previous_resource.addr if change.previous_resource else "",
        change.importing.id if change.importing else None,
    )
