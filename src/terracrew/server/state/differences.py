"""What differs between two states of a module: which resources and outputs were added, changed or removed, by attribute.

This module imports little, because a process that is started for each comparison imports it.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from terracrew.errors import Invalid
from terracrew.masking import names
from terracrew.plan_diff import document
from terracrew.plan_diff.document import PlanDescription, PlannedOutput
from terracrew.plan_diff.model import ResourceAction
from terracrew.plan_diff.resources import PlannedResource, Values
from terracrew.server.state import document as state_document
from terracrew.server.state.document import PathStep, RecordedResource, StackResource, StateInstance, StateOutput


class _ComparedState(NamedTuple):
    instances: dict[str, StateInstance]
    """By their addresses."""
    outputs: dict[str, StateOutput]


_outputs_of = msgspec.json.Decoder(dict[str, Any])
_STACK = "pulumi:pulumi:Stack"
_SECRET_MARK = b'"4dabf18193072939515e22adb298388d"'
"""The field that each secret in a state of Pulumi has, which is encrypted."""


def compared(before: bytes, after: bytes) -> bytes:
    """Return the document of the diff of two states. Values that are marked as sensitive, or whose names say so, are hidden."""
    try:
        old, new = _content(before), _content(after)
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"these states cannot be compared, because one is not in the format of OpenTofu or Pulumi: {error}"
        ) from error
    plan = PlanDescription(list(_resources(old, new)), list(_outputs(old, new)), size=len(before) + len(after))
    return document.build(plan, lambda text: text)


def _content(state: bytes) -> _ComparedState:
    found = state_document.decode(state)
    if found.checkpoint is not None and found.resources is None:
        return _of_stack(found.checkpoint.resources)
    return _ComparedState(_instances(found.read_resources()), found.outputs)


def _resources(before: _ComparedState, after: _ComparedState) -> Iterator[PlannedResource]:
    old, new = before.instances, after.instances
    for address in sorted({**old, **new}):
        was, now = old.get(address), new.get(address)
        if was is None or now is None or bytes(was.attributes) != bytes(now.attributes):
            action: ResourceAction = "create" if was is None else "delete" if now is None else "update"
            yield PlannedResource(address, action, _values(was, now))


def _of_stack(found: list[StackResource]) -> _ComparedState:
    """Return what a stack manages, and its outputs, which are those of the resource that stands for the stack."""
    instances: dict[str, StateInstance] = {}
    outputs: dict[str, StateOutput] = {}
    for each in found:
        if each.type == _STACK:
            own = _outputs_of.decode(each.outputs)
            outputs = {name: StateOutput(value, _has_secret(value)) for name, value in own.items()}
        elif each.is_managed:
            own = _outputs_of.decode(each.outputs)
            secret = [[PathStep(name)] for name, value in own.items() if _has_secret(value)]
            attributes = msgspec.Raw(msgspec.json.encode({"id": each.id} | own))
            suffix = f" (replaced object {each.id})" if each.delete else ""
            instances[each.address + suffix] = StateInstance(None, attributes, secret)
    return _ComparedState(instances, outputs)


def _has_secret(value: Any) -> bool:
    return _SECRET_MARK in msgspec.json.encode(value)


def _instances(found: list[RecordedResource]) -> dict[str, StateInstance]:
    return {
        state_document.address(each.module, each.type, each.name, one.index_key)
        + (f" (leftover object {one.deposed})" if one.deposed else ""): one
        for each in found
        if each.mode == "managed"
        for one in each.instances
    }


def _values(before: StateInstance | None, after: StateInstance | None) -> Callable[[], Values]:
    def read() -> Values:
        old, new = _attributes(before), _attributes(after)
        return Values(old, new, None, _marks(before, old), _marks(after, new))

    return read


def _attributes(instance: StateInstance | None) -> dict[str, Any] | None:
    return None if instance is None else msgspec.json.decode(instance.attributes, type=dict[str, Any])


def _marks(instance: StateInstance | None, attributes: dict[str, Any] | None) -> dict[str, bool]:
    """Return which attributes are sensitive. An attribute of which a part is sensitive counts as a whole."""
    paths = instance.sensitive_attributes if instance else []
    marked = {str(path[0].value) for path in paths if path}
    return {name: True for name in attributes or {} if name in marked or names.is_secret(name)}


def _outputs(before: _ComparedState, after: _ComparedState) -> Iterator[PlannedOutput]:
    nothing = StateOutput()
    for name in sorted({**before.outputs, **after.outputs}):
        was, now = before.outputs.get(name, nothing), after.outputs.get(name, nothing)
        if was.value != now.value:
            is_sensitive = was.sensitive or now.sensitive or names.is_secret(name)
            yield PlannedOutput(name, Values(was.value, now.value, None, is_sensitive, is_sensitive))
