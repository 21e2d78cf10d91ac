"""The formats of states: what OpenTofu and Terraform write, and the checkpoint of a Pulumi stack.

This module imports little, because a process that is started for each comparison imports it.
"""

from typing import Any, Literal, NamedTuple

import msgspec

_PROVIDER_PREFIX = "pulumi:providers:"
ChangingAction = Literal["creating", "changing", "destroying"]
_ACTIONS: dict[str, ChangingAction] = {
    "creating": "creating",
    "importing": "creating",
    "updating": "changing",
    "deleting": "destroying",
}
"""What Pulumi calls an operation that it has begun. One that only reads changes nothing."""


class PathStep(msgspec.Struct):
    """A step of the path of a sensitive value: the name of an attribute, or an index."""

    value: Any = None


class _Identified(msgspec.Struct):
    id: Any = None


_identified = msgspec.json.Decoder(_Identified | None)


class StateInstance(msgspec.Struct):
    """An instance of a resource. Its attributes are decoded where they are needed: they are most of a state."""

    index_key: str | int | None = None
    attributes: msgspec.Raw = msgspec.Raw(b"{}")
    sensitive_attributes: list[list[PathStep]] = []
    deposed: str = ""

    @property
    def id(self) -> Any:
        found = _identified.decode(self.attributes)
        return None if found is None else found.id


class RecordedResource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[StateInstance] = []


class StateOutput(msgspec.Struct):
    value: Any = None
    sensitive: bool = False


class StackResource(msgspec.Struct):
    urn: str
    type: str = ""
    custom: bool = False
    external: bool = False
    delete: bool = False
    """Whether another one was created in its place, and it is still to be deleted."""
    id: str = ""
    outputs: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def is_managed(self) -> bool:
        """Whether the stack made it, and it exists somewhere: components, providers and the stack itself do not."""
        return self.custom and not self.external and not self.type.startswith(_PROVIDER_PREFIX)

    @property
    def address(self) -> str:
        """Return `<types of its parents and its own>::<name>`, which tells the resources of one stack apart."""
        return self.urn.split("::", 2)[-1]


class _Operation(msgspec.Struct):
    resource: StackResource
    type: str = ""


class _Deployment(msgspec.Struct):
    resources: list[StackResource] | None = None
    pending_operations: list[_Operation] | None = None


class _Checkpoint(msgspec.Struct):
    latest: _Deployment | None = None

    @property
    def resources(self) -> list[StackResource]:
        return (self.latest.resources if self.latest else None) or []


class StateDocument(msgspec.Struct):
    resources: list[RecordedResource] | None = None
    """A state that the engine has encrypted does not have this field, and neither has a checkpoint of Pulumi."""
    outputs: dict[str, StateOutput] = {}
    checkpoint: _Checkpoint | None = None

    def read_resources(self) -> list[RecordedResource]:
        """Return the resources of a state. Raises a MsgspecError if it does not tell any: that is not the same as none."""
        if self.resources is None:
            raise msgspec.ValidationError("the state has no list of resources. Its engine may have encrypted it")
        return self.resources


decode = msgspec.json.Decoder(StateDocument).decode


class PendingOperation(NamedTuple):
    address: str
    action: ChangingAction
    id: str


def pending(state: bytes) -> list[PendingOperation]:
    """Return the operations of a stack that had begun, and of which nothing says how they ended."""
    checkpoint = decode(state).checkpoint
    if checkpoint is None:
        raise msgspec.ValidationError("this is not a checkpoint of Pulumi")
    found = (checkpoint.latest.pending_operations if checkpoint.latest else None) or []
    return [
        PendingOperation(each.resource.address, _ACTIONS[each.type], each.resource.id)
        for each in found
        if each.type in _ACTIONS and each.resource.is_managed
    ]


def address(module: str, type_: str, name: str, key: str | int | None) -> str:
    """Return the address of an instance of a resource."""
    prefix = f"{module}." if module else ""
    index = "" if key is None else f"[{key}]" if isinstance(key, int) else f'["{key}"]'
    return f"{prefix}{type_}.{name}{index}"


def type_of(stack_address: str) -> str:
    """Return the type of the resource at an address; '' if the text is not the address of a stack."""
    types, separator, _ = stack_address.partition("::")
    return types.rpartition("$")[2] if separator else ""
