"""Reads the identity of a state file in the format that OpenTofu and Terraform share (version 4)."""

from typing import Any

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.contract import StateIdentity
from terracrew.protocol import events


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
