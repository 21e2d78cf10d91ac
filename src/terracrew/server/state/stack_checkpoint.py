"""Reads the checkpoint of a Pulumi stack: which resources it has, and which operations had begun when it was written."""

from typing import Literal, NamedTuple

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


class KnownResource(NamedTuple):
    address: str
    id: str
    is_replaced: bool
    """Whether another one was created in its place, and it is still to be deleted."""


class PendingOperation(NamedTuple):
    address: str
    action: ChangingAction
    id: str


class _PendingResource(msgspec.Struct):
    urn: str
    type: str = ""
    id: str = ""
    custom: bool = False
    external: bool = False
    delete: bool = False

    @property
    def is_managed(self) -> bool:
        return is_managed(self.type, is_custom=self.custom, is_external=self.external)


class _Operation(msgspec.Struct):
    resource: _PendingResource
    type: str = ""


class _PendingDeployment(msgspec.Struct):
    resources: list[_PendingResource] | None = None
    pending_operations: list[_Operation] | None = None


class _PendingCheckpoint(msgspec.Struct):
    latest: _PendingDeployment | None = None


class _PendingDocument(msgspec.Struct):
    checkpoint: _PendingCheckpoint


_document = msgspec.json.Decoder(_PendingDocument)


def resources(state: bytes) -> list[KnownResource]:
    """Return what the stack manages. Raises an error of msgspec if this is not a checkpoint."""
    latest = _document.decode(state).checkpoint.latest
    found = (latest.resources if latest else None) or []
    return [KnownResource(address(each.urn), each.id, each.delete) for each in found if each.is_managed]


def pending(state: bytes) -> list[PendingOperation]:
    """Return the operations that had begun, and of which nothing says how they ended."""
    latest = _document.decode(state).checkpoint.latest
    found = (latest.pending_operations if latest else None) or []
    return [
        PendingOperation(address(each.resource.urn), _ACTIONS[each.type], each.resource.id)
        for each in found
        if each.type in _ACTIONS and each.resource.is_managed
    ]


def is_managed(type_: str, *, is_custom: bool, is_external: bool) -> bool:
    """Return whether the stack made this resource, and it exists somewhere: components, providers and the stack itself do not."""
    return is_custom and not is_external and not type_.startswith(_PROVIDER_PREFIX)


def address(urn: str) -> str:
    """Return `<types of its parents and its own>::<name>`, which tells the resources of one stack apart."""
    return urn.split("::", 2)[-1]


def type_of(address_: str) -> str:
    """Return the type of the resource at an address; '' if the text is not the address of a stack."""
    types, separator, _ = address_.partition("::")
    return types.rpartition("$")[2] if separator else ""
