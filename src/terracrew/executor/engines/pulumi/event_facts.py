"""Reads what a preview would do from the events, lines of JSON, that Pulumi writes with `--event-log=FILE` beside its printed output."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.executor.engines.plan_facts import Action, PlanFacts, PlannedChange
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
    def is_managed(self) -> bool:
        state = self.new or self.old
        return state is not None and checkpoint.is_managed(self.type, is_custom=state.custom)


class _ResourceEvent(msgspec.Struct):
    metadata: _EventMetadata


class _Event(msgspec.Struct, rename="camel"):
    resource_pre_event: _ResourceEvent | None = None
    res_outputs_event: _ResourceEvent | None = None


_event = msgspec.json.Decoder(_Event)


def read(path: Path) -> PlanFacts:
    changes: dict[str, PlannedChange] = {}
    outputs: dict[str, str] = {}
    known, vanished = set[str](), set[str]()
    for event in _events(path):
        if (found := event.res_outputs_event) and found.metadata.type == checkpoint.STACK_TYPE:
            outputs = _changed_outputs(found.metadata)
        for each in (event.resource_pre_event, event.res_outputs_event):
            if each is None or not each.metadata.is_managed:
                continue
            metadata = each.metadata
            if metadata.old:
                known.add(metadata.urn)
            if event.res_outputs_event and metadata.op in ("refresh", "delete") and _is_vanished(metadata, changes):
                vanished.add(metadata.urn)
            elif event.resource_pre_event and (action := _ACTIONS.get(metadata.op)):
                changes[metadata.urn] = _planned(metadata, action)
    return PlanFacts(list(changes.values()), outputs, frozenset(vanished), max(len(known) - len(vanished), 0))


def _events(path: Path) -> Iterator[_Event]:
    return (_event.decode(line) for line in read_produced(path).splitlines())


def _is_vanished(metadata: _EventMetadata, changes: dict[str, PlannedChange]) -> bool:
    """Return whether a refresh has found that a resource does not exist any more. A planned delete is announced before."""
    return metadata.new is None and metadata.urn not in changes


def _planned(metadata: _EventMetadata, action: Action) -> PlannedChange:
    import_id = (metadata.new.id if metadata.new else "") if action == "import" else None
    return PlannedChange(checkpoint.address(metadata.urn), action, import_id=import_id)


def _changed_outputs(metadata: _EventMetadata) -> dict[str, str]:
    """Compare the outputs of the stack. The values of secrets are hidden in the events, so a change of one is not seen."""
    old = (metadata.old.outputs if metadata.old else None) or {}
    new = (metadata.new.outputs if metadata.new else None) or {}
    changed = {name: "create" if name not in old else "update" for name in new if old.get(name, ...) != new[name]}
    return changed | {name: "delete" for name in old if name not in new}
