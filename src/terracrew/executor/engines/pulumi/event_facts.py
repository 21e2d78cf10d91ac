"""Reads what a preview would do from the events, lines of JSON, that Pulumi writes with `--event-log=FILE` beside its printed output."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.executor.engines.plan_summary import Action, PlanFacts, PlannedChange
from terracrew.executor.engines.pulumi import checkpoint

_ACTIONS: dict[str, Action] = {
    "create": "create",
    "update": "update",
    "delete": "delete",
    "replace": "replace",
    "read": "read",
    "import": "import",
}
"""A replacement is also announced as `create-replacement` and `delete-replaced`, which are not counted again."""


class _EventState(msgspec.Struct):
    urn: str = ""
    custom: bool = False
    external: bool = False
    id: str = ""
    outputs: dict[str, Any] | None = None


class _EventMetadata(msgspec.Struct):
    op: str
    urn: str
    type: str
    old: _EventState | None = None
    new: _EventState | None = None

    @property
    def urns(self) -> tuple[str, str]:
        return self.old.urn if self.old else "", self.new.urn if self.new else ""

    @property
    def is_managed(self) -> bool:
        state = self.new or self.old
        return state is not None and checkpoint.is_managed(self.type, is_custom=state.custom)


class _ResourceEvent(msgspec.Struct):
    metadata: _EventMetadata


class _Event(msgspec.Struct, rename="camel"):
    resource_pre_event: _ResourceEvent | None = None
    res_outputs_event: _ResourceEvent | None = None


_event = msgspec.json.Decoder(_Event)
MAX_EVENTS_BYTES = 256 << 20
"""The events of a preview have the inputs and outputs of all resources."""


def read(path: Path) -> PlanFacts:
    changes: dict[str, PlannedChange] = {}
    outputs: dict[str, str] = {}
    known, vanished = set[str](), set[str]()
    for event in _events(path):
        if (ended := event.res_outputs_event) and ended.metadata.type == checkpoint.STACK_TYPE:
            outputs = _changed_outputs(ended.metadata)
        for each in (event.resource_pre_event, event.res_outputs_event):
            if each is None or not each.metadata.is_managed:
                continue
            metadata = each.metadata
            if metadata.old:
                known.add(metadata.urn)
            if event.res_outputs_event and metadata.op in ("refresh", "delete") and _is_vanished(metadata, changes):
                vanished.add(metadata.urn)
            elif event.resource_pre_event and (found := action(metadata.op, *metadata.urns)):
                changes[metadata.urn] = _planned(metadata, found)
    return PlanFacts(list(changes.values()), outputs, frozenset(vanished), max(len(known) - len(vanished), 0))


def _events(path: Path) -> Iterator[_Event]:
    return (_event.decode(line) for line in read_produced(path, MAX_EVENTS_BYTES).splitlines())


def _is_vanished(metadata: _EventMetadata, changes: dict[str, PlannedChange]) -> bool:
    """Return whether a refresh has found that a resource does not exist any more. A planned delete is announced before."""
    return metadata.new is None and metadata.urn not in changes


def action(operation: str, old_urn: str, new_urn: str) -> Action | None:
    """Return what a step does to a resource; None if it does nothing that is counted. An alias gives a resource another URN."""
    if operation == "same" and old_urn and new_urn and old_urn != new_urn:
        return "move"
    return _ACTIONS.get(operation)


def _planned(metadata: _EventMetadata, found: Action) -> PlannedChange:
    import_id = (metadata.new.id if metadata.new else "") if found == "import" else None
    old, new = metadata.urns
    previous = checkpoint.address(old) if found in ("move", "update") and old and new and old != new else ""
    return PlannedChange(checkpoint.address(metadata.urn), found, previous_address=previous, import_id=import_id)


def _changed_outputs(metadata: _EventMetadata) -> dict[str, str]:
    """Compare the outputs of the stack. The values of secrets are hidden in the events, so a change of one is not seen."""
    old = (metadata.old.outputs if metadata.old else None) or {}
    new = (metadata.new.outputs if metadata.new else None) or {}
    changed = {name: "create" if name not in old else "update" for name in new if old.get(name, ...) != new[name]}
    return changed | {name: "delete" for name in old if name not in new}
