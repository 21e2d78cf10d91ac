"""The addresses of the resources in a module's current state, which a destroy would destroy."""

import asyncio

import msgspec

from terracrew.errors import Undecryptable
from terracrew.server.db.seam import Database, Tx
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content, store
from terracrew.server.state.store import StoredState

MAX_ADDRESSES = 20
"""How many resources are named; the others are only counted."""
MAX_READ_BYTES = 16 << 20
"""For a larger state, only the number of resources is shown, if its executor counted them."""
_THREAD_ABOVE_BYTES = 256 << 10


class Resources(msgspec.Struct, frozen=True):
    """What a module manages, as far as its current state tells."""

    version: int = 0
    """The version of the state; 0 if there is none."""
    count: int | None = 0
    """How many resources; None where that is not known, because the state is kept elsewhere or is too large to be read."""
    addresses: list[str] = []
    """The first 20 of them."""
    problem: str = ""
    """Why the state cannot be read, if it cannot be decrypted: its resources are then not named."""


class _Instance(msgspec.Struct):
    index_key: str | int | None = None


class _ListedResource(msgspec.Struct):
    mode: str
    type: str
    name: str
    module: str = ""
    instances: list[_Instance] = []


class _Document(msgspec.Struct):
    resources: list[_ListedResource] = []


_document = msgspec.json.Decoder(_Document)


async def current(db: Database, objects: Objects, keys: Keyring, module_id: str, *, is_kept_here: bool) -> Resources:
    """Return the resources in the module's current state. With `is_kept_here`, Terracrew stores it, so without a state there are none."""

    async def work(tx: Tx) -> tuple[StoredState | None, int | None]:
        kept = await store.current(tx, module_id)
        return kept, None if kept is None else await store.resources(tx, kept.state.id)

    kept, counted = await db.read(work)
    if kept is None:
        return Resources() if is_kept_here else Resources(count=None)
    version = kept.state.version or 0
    if kept.state.size > MAX_READ_BYTES:
        return Resources(version, counted)
    try:
        plain = (await content.read(objects, keys, kept.contexts, kept.sealed)).content
    except Undecryptable as error:  # the number of resources is known all the same
        return Resources(version, counted, problem=error.message)
    try:
        is_large = len(plain) > _THREAD_ABOVE_BYTES
        found = await asyncio.to_thread(addresses, plain) if is_large else addresses(plain)
    except msgspec.MsgspecError:  # a state of another engine
        return Resources(version, counted)
    return Resources(version, len(found), found[:MAX_ADDRESSES])


def addresses(state: bytes) -> list[str]:
    """Return the addresses of all managed resources in a state."""
    return [
        _address(resource, instance)
        for resource in _document.decode(state).resources
        if resource.mode == "managed"
        for instance in resource.instances
    ]


def _address(resource: _ListedResource, instance: _Instance) -> str:
    prefix = f"{resource.module}." if resource.module else ""
    key = instance.index_key
    index = "" if key is None else f"[{key}]" if isinstance(key, int) else f'["{key}"]'
    return f"{prefix}{resource.type}.{resource.name}{index}"
