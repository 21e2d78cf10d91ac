"""Reads the identity and the resources of a state file in the format that OpenTofu and Terraform share (version 4)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew.engine_rules import import_blocks
from terracrew.errors import Invalid
from terracrew.executor.engines.contract import StateIdentity
from terracrew.protocol import events

_state = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raws = msgspec.json.Decoder(list[msgspec.Raw])


class _Resource(msgspec.Struct, frozen=True):
    mode: str = "managed"
    instances: list[msgspec.Raw] = []


class _Name(msgspec.Struct, frozen=True):
    serial: events.Count
    lineage: events.Line


class _Content(_Name, frozen=True):
    resources: list[_Resource] | None = None


class _EmptyState(msgspec.Struct):
    serial: int
    lineage: str
    version: int = 4
    outputs: dict[str, str] = {}
    resources: list[str] = []


class _Output(msgspec.Struct, frozen=True):
    value: Any = None
    sensitive: bool = False


class _Outputs(msgspec.Struct, frozen=True):
    outputs: dict[str, _Output] = {}


_outputs = msgspec.json.Decoder(_Outputs).decode
_content = msgspec.json.Decoder(_Content).decode
_name = msgspec.json.Decoder(_Name).decode


def identify(content: bytes) -> StateIdentity:
    """Return the identity of a state. Raises Invalid if the content is not a state at all."""
    try:
        found = _content(content)
    except (ValueError, RecursionError):
        pass
    else:
        return StateIdentity(found.serial, found.lineage, _count(found.resources))
    try:
        name = _name(content)  # its resources may be in a format that we do not know
    except (ValueError, RecursionError) as error:
        raise Invalid(f"this is not a state: {error}") from error
    return StateIdentity(name.serial, name.lineage)


def sensitive_outputs(content: bytes) -> dict[str, object]:
    """Return the values of the sensitive outputs, by name. A state that the engine has encrypted shows none."""
    try:
        found = _outputs(content)
    except (ValueError, RecursionError):
        return {}
    return {name: each.value for name, each in found.outputs.items() if each.sensitive}


def emptied(content: bytes) -> bytes:
    """Return a state of the same lineage with the next serial and no resources."""
    identity = identify(content)
    return msgspec.json.encode(_EmptyState(identity.serial + 1, identity.lineage))


def count(content: bytes) -> int:
    """Return how many resources a state manages. An empty content is no state yet."""
    return (identify(content).resources or 0) if content else 0


def _count(resources: list[_Resource] | None) -> int | None:
    """Count the resources. Data sources are also in the state, but the engine did not create them."""
    if resources is None:
        return None
    return sum(len(each.instances) for each in resources if each.mode != "data")


class _KeptAttributes(msgspec.Struct):
    id: Any = None


class _KeptInstance(msgspec.Struct):
    index_key: str | int | None = None
    deposed: str = ""
    attributes: _KeptAttributes | None = None


class _KeptResource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[msgspec.Raw] = []


_resource = msgspec.json.Decoder(_KeptResource)
_instance = msgspec.json.Decoder(_KeptInstance)


def without_destroyed(state: bytes, destroyed: Mapping[str, str]) -> bytes:
    """Return the state without these resources (address → id). Everything else in it stays as it is, byte by byte.

    A state in another format, such as one that the engine has encrypted, is returned unchanged.
    """
    try:
        document = _state.decode(state)
        resources = [_without(each, destroyed) for each in _raws.decode(document["resources"])]
    except (msgspec.MsgspecError, KeyError):
        return state
    document["resources"] = msgspec.Raw(msgspec.json.encode([each for each in resources if each is not None]))
    return msgspec.json.encode(document)


def _without(raw: msgspec.Raw, destroyed: Mapping[str, str]) -> msgspec.Raw | None:
    """Return a resource without its instances that were destroyed; None if there is no other one."""
    resource = _resource.decode(raw)
    kept = [each for each in resource.instances if not _is_destroyed(resource, _instance.decode(each), destroyed)]
    if len(kept) == len(resource.instances):
        return raw
    if not kept:
        return None
    fields = _state.decode(raw)
    fields["instances"] = msgspec.Raw(msgspec.json.encode(kept))
    return msgspec.Raw(msgspec.json.encode(fields))


def _is_destroyed(resource: _KeptResource, instance: _KeptInstance, destroyed: Mapping[str, str]) -> bool:
    if resource.mode != "managed" or instance.deposed:
        return False
    address = import_blocks.instance_address(resource.module, resource.type, resource.name, instance.index_key)
    return (
        address in destroyed and instance.attributes is not None and str(instance.attributes.id) == destroyed[address]
    )
