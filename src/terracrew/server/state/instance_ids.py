"""The ids of the resources in a module's current state, to compare them with what a log reports."""

import asyncio
from typing import Any

import msgspec

from terracrew.engine_rules import import_blocks
from terracrew.errors import Undecryptable
from terracrew.server.db.seam import Database
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content, stack_checkpoint, store

MAX_READ_BYTES = 64 << 20
"""A larger state is not read."""
_THREAD_ABOVE_BYTES = 256 << 10


class InstanceIds(msgspec.Struct, frozen=True):
    version: int = 0
    """The version of the state; 0 if there is none."""
    current: dict[str, str] = {}
    """Address → id of the resource; '' if the state does not tell the id."""
    deposed: frozenset[tuple[str, str]] = frozenset()
    """Address and id of each object that was replaced and is not destroyed yet."""


class _ComparedAttributes(msgspec.Struct):
    id: Any = None


class _ComparedInstance(msgspec.Struct):
    index_key: str | int | None = None
    deposed: str = ""
    attributes: _ComparedAttributes | None = None

    @property
    def id(self) -> str:
        return "" if self.attributes is None or self.attributes.id is None else str(self.attributes.id)


class _ComparedResource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[_ComparedInstance] = []


class _ComparedDocument(msgspec.Struct):
    resources: list[_ComparedResource] | None = None
    """A state that the engine has encrypted does not have this field, and neither has a checkpoint of Pulumi."""


_document = msgspec.json.Decoder(_ComparedDocument)


async def current(
    db: Database, objects: Objects, keys: Keyring, module_id: str, *, is_kept_here: bool
) -> InstanceIds | None:
    """Return the ids in the current state of a module; None if Terracrew does not have it or cannot read it."""
    kept = await db.read(lambda tx: store.current(tx, module_id))
    if kept is None:
        return InstanceIds() if is_kept_here else None
    if kept.state.size > MAX_READ_BYTES:
        return None
    try:
        plain = (await content.read(objects, keys, kept.context, kept.sealed)).content
        version = kept.state.version or 0
        is_large = len(plain) > _THREAD_ABOVE_BYTES
        return await asyncio.to_thread(read, plain, version) if is_large else read(plain, version)
    except (Undecryptable, msgspec.MsgspecError):
        return None


def read(state: bytes, version: int) -> InstanceIds:
    found: dict[str, str] = {}
    deposed: set[tuple[str, str]] = set()
    document = _document.decode(state)
    if document.resources is None:
        known = stack_checkpoint.resources(state)
        deposed = {(each.address, each.id) for each in known if each.is_replaced}
        current = {each.address: each.id for each in known if not each.is_replaced}
        return InstanceIds(version, current, frozenset(deposed))
    for resource in document.resources:
        for instance in resource.instances if resource.mode == "managed" else ():
            address = import_blocks.instance_address(resource.module, resource.type, resource.name, instance.index_key)
            if instance.deposed:
                deposed.add((address, instance.id))
            else:
                found[address] = instance.id
    return InstanceIds(version, found, frozenset(deposed))
