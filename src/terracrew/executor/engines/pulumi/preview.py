"""Reads what a preview would do from the events, lines of JSON, that Pulumi writes with `--event-log=FILE` beside its printed output.

The events have no secrets: Pulumi writes the same text in place of each. Which properties change, it says beside that.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Invalid
from terracrew.executor.engines.plan_summary import Action, PlanFacts, PlannedChange
from terracrew.executor.engines.pulumi import checkpoint
from terracrew.plan_diff.document import PlanDescription, PlannedOutput
from terracrew.plan_diff.resources import PlannedResource, Values
from terracrew.plan_diff.values import MAX_LEVELS, is_list, is_object

_UNKNOWN_TEXTS = frozenset(
    {
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
"""Pulumi writes one of these in place of a value that is known only after the update, by its type."""
MAX_EVENTS_BYTES = 256 << 20
"""The events of a preview have the inputs and outputs of all resources."""
_ACTIONS: dict[str, Action] = {
    "create": "create",
    "update": "update",
    "delete": "delete",
    "replace": "replace",
    "read": "read",
    "import": "import",
}
"""A replacement is also announced as `create-replacement` and `delete-replaced`, which are not counted again."""
_PATH = re.compile(r"""(?:^|\.)([^.\[\]"]+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]""")
_NONE = msgspec.Raw(b"null")


class _PreviewState(msgspec.Struct):
    """A resource before or after a step. Its properties stay undecoded until they are compared."""

    urn: str = ""
    custom: bool = False
    external: bool = False
    delete: bool = False
    taint: bool = False
    id: str = ""
    inputs: msgspec.Raw = _NONE
    outputs: msgspec.Raw = _NONE


class PropertyDiff(msgspec.Struct, rename="camel"):
    diff_kind: str = ""
    input_diff: bool = False


class _PreviewStep(msgspec.Struct, rename="camel"):
    op: str
    urn: str
    type: str
    old: _PreviewState | None = None
    new: _PreviewState | None = None
    keys: list[str] | None = None
    diffs: list[str] | None = None
    detailed_diff: dict[str, PropertyDiff] | None = None

    @property
    def is_managed(self) -> bool:
        state = self.new or self.old
        return state is not None and checkpoint.is_managed(self.type, is_custom=state.custom)

    @property
    def action(self) -> Action | None:
        """What the step does to the resource; None if it does nothing that is counted. An alias gives a resource another URN."""
        old, new = _urn(self.old), _urn(self.new)
        return "move" if self.op == "same" and old and new and old != new else _ACTIONS.get(self.op)

    @property
    def previous_address(self) -> str:
        """Where a resource was before that gets another URN."""
        old, new = _urn(self.old), _urn(self.new)
        return checkpoint.address(old) if self.action in ("move", "update") and old and new and old != new else ""

    @property
    def import_id(self) -> str | None:
        return (self.new.id if self.new else "") if self.action == "import" else None


class _PreviewResource(msgspec.Struct):
    metadata: _PreviewStep


class _PreviewEvent(msgspec.Struct, rename="camel"):
    resource_pre_event: _PreviewResource | None = None
    res_outputs_event: _PreviewResource | None = None


class _Marked(NamedTuple):
    """A value with marks for its unknown and its secret parts."""

    value: Any
    unknown: Any
    secret: Any


_event = msgspec.json.Decoder(_PreviewEvent)


def facts(path: Path) -> PlanFacts:
    """Raises Invalid if the events cannot be read."""
    changes: dict[str, PlannedChange] = {}
    outputs: dict[str, str] = {}
    known, vanished = set[str](), set[str]()
    for event in _events(read_produced(path, MAX_EVENTS_BYTES)):
        if (ended := event.res_outputs_event) and ended.metadata.type == checkpoint.STACK_TYPE:
            outputs = _changed_outputs(ended.metadata)
        for each in (event.resource_pre_event, event.res_outputs_event):
            if each is None or not (step := each.metadata).is_managed:
                continue
            if step.old:
                known.add(step.urn)
            if (
                event.res_outputs_event
                and step.op in ("refresh", "delete")
                and not step.new
                and step.urn not in changes
            ):
                vanished.add(
                    step.urn
                )  # a refresh has found that it does not exist; a planned delete is announced before
            elif event.resource_pre_event and (found := step.action):
                changes[step.urn] = PlannedChange(
                    checkpoint.address(step.urn),
                    found,
                    previous_address=step.previous_address,
                    import_id=step.import_id,
                )
    return PlanFacts(list(changes.values()), outputs, frozenset(vanished), max(len(known) - len(vanished), 0))


def description(path: Path, *, is_destroying: bool) -> PlanDescription:
    """Raises Invalid if the events cannot be read."""
    content = read_produced(path, MAX_EVENTS_BYTES)
    steps: dict[str, _PreviewStep] = {}
    drift: dict[str, PlannedResource] = {}
    created_first: dict[str, bool] = {}
    refreshing = set[str]()
    outputs: list[PlannedOutput] = []
    for event in _events(content):
        if event.resource_pre_event and (step := event.resource_pre_event.metadata).is_managed:
            if step.op == "refresh":
                refreshing.add(step.urn)
            if step.op in ("create-replacement", "delete-replaced"):
                created_first.setdefault(step.urn, step.op == "create-replacement")
            if step.action:
                steps[step.urn] = step
        if event.res_outputs_event:
            step = event.res_outputs_event.metadata
            if step.type == checkpoint.STACK_TYPE:
                outputs = _outputs(step)
            elif step.urn in refreshing and step.urn not in steps and (found := _drifted(step)):
                drift[step.urn] = found
    resources = [
        _planned(step, action, is_create_first=created_first.get(urn, False), is_destroying=is_destroying)
        for urn, step in steps.items()
        if (action := step.action)
    ]
    return PlanDescription(resources, outputs, list(drift.values()), len(content))


def _events(content: bytes) -> Iterator[_PreviewEvent]:
    try:
        yield from map(_event.decode, content.splitlines())
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid(f"Pulumi described its preview in a way that cannot be read: {error}") from error


def _changed_outputs(step: _PreviewStep) -> dict[str, str]:
    """Compare the outputs of the stack. The values of secrets are hidden in the events, so a change of one is not seen."""
    old, new = (_properties(state.outputs if state else _NONE) for state in (step.old, step.new))
    changed = {name: "create" if name not in old else "update" for name in new if old.get(name, ...) != new[name]}
    return changed | {name: "delete" for name in old if name not in new}


def _urn(state: _PreviewState | None) -> str:
    return state.urn if state else ""


def _planned(step: _PreviewStep, action: Action, *, is_create_first: bool, is_destroying: bool) -> PlannedResource:
    old = step.old
    replacing = [
        path for path, each in (step.detailed_diff or {}).items() if each.diff_kind.endswith("-replace")
    ] or list(step.keys or [])
    reason = ""
    if action == "replace":
        reason = "tainted" if old and old.taint else "cannot_update" if replacing else ""
    elif action == "delete" and not is_destroying:
        reason = "delete_because_no_resource_config"
    return PlannedResource(
        address=checkpoint.address(step.urn),
        action=action,
        read_values=_values(step, action),
        reason=reason,
        replace_paths=[parsed_path(path) for path in replacing] if action == "replace" else [],
        is_create_first=is_create_first,
        previous_address=step.previous_address,
        import_id=step.import_id,
        deposed=(old.id or "unknown") if action == "delete" and old and old.delete else "",
    )


def parsed_path(path: str) -> list[str | int]:
    """Return the parts of a path such as `tags["a.b"][0].name`."""
    found = [int(index) if index else name or quoted for name, index, quoted in _PATH.findall(path)]
    return found or [path]


def _values(step: _PreviewStep, action: Action) -> Callable[[], Values]:
    """Compare what the program asks for before and after, and what the resource really is where Pulumi compared with that."""

    def read() -> Values:
        before = _properties(step.old.inputs if step.old else _NONE)
        after = {} if action == "delete" else _properties(step.new.inputs if step.new else _NONE)
        changed = {str(parsed_path(each)[0]) for each in (*(step.diffs or ()), *(step.detailed_diff or ()))}
        real = {str(parsed_path(path)[0]) for path, each in (step.detailed_diff or {}).items() if not each.input_diff}
        if real and step.old:
            found = _properties(step.old.outputs)
            before |= {name: found[name] for name in real if name in found}
        return _compared(before, after, changed)

    return read


def _drifted(step: _PreviewStep) -> PlannedResource | None:
    """Return what a refresh has found of a resource that was changed outside; None if nothing was."""
    old, new = step.old, step.new
    if old is None or (new is not None and old.outputs == new.outputs):
        return None

    def read() -> Values:
        return _compared(_properties(old.outputs), {} if new is None else _properties(new.outputs), set())

    return PlannedResource(checkpoint.address(step.urn), "delete" if new is None else "update", read)


def _outputs(step: _PreviewStep) -> list[PlannedOutput]:
    old = _properties(step.old.outputs if step.old else _NONE)
    new = _properties(step.new.outputs if step.new else _NONE)
    names = sorted(name for name in {**old, **new} if old.get(name, ...) != new.get(name, ...))
    return [PlannedOutput(name, _compared_value(old.get(name), new.get(name))) for name in names]


def _compared_value(before: Any, after: Any) -> Values:
    old, new = _marked(before, "1"), _marked(after, "2")
    return Values(old.value, new.value, new.unknown, old.secret, new.secret)


def _compared(before: Mapping[str, Any], after: Mapping[str, Any], changed: set[str]) -> Values:
    """Return the properties with their marks. Secrets are equal in the events, so those that change are made to differ."""
    old = {name: _marked(value, "1") for name, value in before.items()}
    new = {name: _marked(value, "2" if name in changed else "1") for name, value in after.items()}
    return Values(
        {name: each.value for name, each in old.items()} or None,
        {name: each.value for name, each in new.items()} or None,
        {name: each.unknown for name, each in new.items()},
        {name: each.secret for name, each in old.items()},
        {name: each.secret for name, each in new.items()},
    )


def _marked(value: Any, secret: str, level: int = 0) -> _Marked:
    """Return a value with its marks. A secret becomes this text, which is never shown."""
    if isinstance(value, str) and value in _UNKNOWN_TEXTS:
        return _Marked(None, True, None)
    if checkpoint.is_secret(value) or level >= MAX_LEVELS:
        return _Marked(secret, None, True)
    if is_object(value):
        parts = {name: _marked(each, secret, level + 1) for name, each in value.items()}
        return _Marked(*({name: part[at] for name, part in parts.items()} for at in range(3)))
    if is_list(value):
        items = [_marked(each, secret, level + 1) for each in value]
        return _Marked(*([item[at] for item in items] for at in range(3)))
    return _Marked(value, None, None)


def _properties(content: msgspec.Raw) -> dict[str, Any]:
    found = msgspec.json.decode(content)
    return found if is_object(found) else {}
