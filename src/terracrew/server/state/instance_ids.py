"""The ids of the resources in a module's current state, to compare them with what a log reports."""

import asyncio

import msgspec

from terracrew.engine_rules import import_blocks
from terracrew.errors import Undecryptable
from terracrew.server.db.seam import Database
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content, document, store

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
    current: dict[str, str] = {}
    deposed: set[tuple[str, str]] = set()
    found = document.decode(state)
    if found.checkpoint is not None and found.resources is None:
        known = [each for each in found.checkpoint.resources if each.is_managed]
        deposed = {(each.address, each.id) for each in known if each.delete}
        return InstanceIds(version, {each.address: each.id for each in known if not each.delete}, frozenset(deposed))
    for resource in found.read_resources():
        for instance in resource.instances if resource.mode == "managed" else ():
            address = import_blocks.instance_address(resource.module, resource.type, resource.name, instance.index_key)
            resource_id = "" if instance.id is None else str(instance.id)
            if instance.deposed:
                deposed.add((address, resource_id))
            else:
                current[address] = resource_id
    return InstanceIds(version, current, frozenset(deposed))
