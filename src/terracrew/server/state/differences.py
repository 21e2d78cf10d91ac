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
from terracrew.server.state import stack_checkpoint


class PathStep(msgspec.Struct):
    """A step of the path of a sensitive value: the name of an attribute, or an index."""

    value: Any = None


class _VersionInstance(msgspec.Struct):
    index_key: str | int | None = None
    attributes: msgspec.Raw = msgspec.Raw(b"{}")
    sensitive_attributes: list[list[PathStep]] = []
    deposed: str = ""


class _VersionResource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[_VersionInstance] = []


class _VersionOutput(msgspec.Struct):
    value: Any = None
    sensitive: bool = False


class _StackVersion(msgspec.Struct):
    urn: str
    type: str = ""
    custom: bool = False
    external: bool = False
    delete: bool = False
    id: str = ""
    outputs: dict[str, Any] = {}


class _VersionDeployment(msgspec.Struct):
    resources: list[_StackVersion] | None = None


class _VersionCheckpoint(msgspec.Struct):
    latest: _VersionDeployment | None = None


class _StateContent(msgspec.Struct):
    resources: list[_VersionResource] | None = None
    """A state that the engine has encrypted does not have this field, and neither has a checkpoint of Pulumi."""
    outputs: dict[str, _VersionOutput] = {}
    checkpoint: _VersionCheckpoint | None = None


class _ComparedState(NamedTuple):
    instances: dict[str, _VersionInstance]
    """By their addresses."""
    outputs: dict[str, _VersionOutput]


_state = msgspec.json.Decoder(_StateContent)
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
    found = _state.decode(state)
    if found.resources is not None:
        return _ComparedState(_instances(found.resources), found.outputs)
    if found.checkpoint is not None:
        latest = found.checkpoint.latest
        return _of_stack((latest.resources if latest else None) or [])
    raise ValueError("it has no list of resources. Its engine may have encrypted it")


def _resources(before: _ComparedState, after: _ComparedState) -> Iterator[PlannedResource]:
    old, new = before.instances, after.instances
    for address in sorted({**old, **new}):
        was, now = old.get(address), new.get(address)
        if was is None or now is None or bytes(was.attributes) != bytes(now.attributes):
            action: ResourceAction = "create" if was is None else "delete" if now is None else "update"
            yield PlannedResource(address, action, _values(was, now))


def _of_stack(found: list[_StackVersion]) -> _ComparedState:
    """Return what a stack manages, and its outputs, which are those of the resource that stands for the stack."""
    instances: dict[str, _VersionInstance] = {}
    outputs: dict[str, _VersionOutput] = {}
    for each in found:
        if each.type == _STACK:
            outputs = {name: _VersionOutput(value, _has_secret(value)) for name, value in each.outputs.items()}
        elif stack_checkpoint.is_managed(each.type, is_custom=each.custom, is_external=each.external):
            secret = [[PathStep(name)] for name, value in each.outputs.items() if _has_secret(value)]
            attributes = msgspec.Raw(msgspec.json.encode({"id": each.id} | each.outputs))
            suffix = f" (replaced object {each.id})" if each.delete else ""
            instances[stack_checkpoint.address(each.urn) + suffix] = _VersionInstance(None, attributes, secret)
    return _ComparedState(instances, outputs)


def _has_secret(value: Any) -> bool:
    return _SECRET_MARK in msgspec.json.encode(value)


def _instances(found: list[_VersionResource]) -> dict[str, _VersionInstance]:
    return {
        address(each.module, each.type, each.name, one.index_key)
        + (f" (leftover object {one.deposed})" if one.deposed else ""): one
        for each in found
        if each.mode == "managed"
        for one in each.instances
    }


def address(module: str, type_: str, name: str, key: str | int | None) -> str:
    """Return the address of an instance of a resource."""
    prefix = f"{module}." if module else ""
    index = "" if key is None else f"[{key}]" if isinstance(key, int) else f'["{key}"]'
    return f"{prefix}{type_}.{name}{index}"


def _values(before: _VersionInstance | None, after: _VersionInstance | None) -> Callable[[], Values]:
    def read() -> Values:
        old, new = _attributes(before), _attributes(after)
        return Values(old, new, None, _marks(before, old), _marks(after, new))

    return read


def _attributes(instance: _VersionInstance | None) -> dict[str, Any] | None:
    return None if instance is None else msgspec.json.decode(instance.attributes, type=dict[str, Any])


def _marks(instance: _VersionInstance | None, attributes: dict[str, Any] | None) -> dict[str, bool]:
    """Return which attributes are sensitive. An attribute of which a part is sensitive counts as a whole."""
    paths = instance.sensitive_attributes if instance else []
    marked = {str(path[0].value) for path in paths if path}
    return {name: True for name in attributes or {} if name in marked or names.is_secret(name)}


def _outputs(before: _ComparedState, after: _ComparedState) -> Iterator[PlannedOutput]:
    nothing = _VersionOutput()
    for name in sorted({**before.outputs, **after.outputs}):
        was, now = before.outputs.get(name, nothing), after.outputs.get(name, nothing)
        if was.value != now.value:
            is_sensitive = was.sensitive or now.sensitive or names.is_secret(name)
            yield PlannedOutput(name, Values(was.value, now.value, None, is_sensitive, is_sensitive))
