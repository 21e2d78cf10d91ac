"""The addresses of the resources in a module's current state, which a destroy would destroy."""

import asyncio

import msgspec

from terracrew.api.states import Resources
from terracrew.errors import Unavailable, Undecryptable
from terracrew.server.db.seam import Database, Tx
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content, document, store
from terracrew.server.state.document import StateInstance
from terracrew.server.state.store import StoredState

MAX_ADDRESSES = 20
"""How many resources are named; the others are only counted."""
MAX_READ_BYTES = 16 << 20
"""For a larger state, only the number of resources is shown, if its executor counted them."""
MAX_ID_CHARACTERS = 200
_THREAD_ABOVE_BYTES = 256 << 10


class ResourceRow(msgspec.Struct, frozen=True):
    """A resource as the list of a module's resources shows it."""

    module: str
    """The address of the module that it is in; empty for the root module."""
    address: str
    id: str = ""
    """What its provider calls it; empty if it has no id, or if that is sensitive."""


class ResourcePage(msgspec.Struct, frozen=True):
    version: int
    count: int | None
    """How many resources the state has; None if that is not known."""
    total: int = 0
    """How many of them match the search."""
    rows: list[ResourceRow] = []
    start: int = 0
    problem: str = ""
    """Why the resources cannot be listed."""

    @property
    def next(self) -> int | None:
        """Return where the next page begins; None if this is the last one."""
        end = self.start + len(self.rows)
        return end if end < self.total else None


_UNREADABLE = "the state is not in the format of OpenTofu, or its engine has encrypted it"


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
        plain = (await content.read(objects, keys, kept.context, kept.sealed)).content
    except Undecryptable as error:  # the number of resources is known all the same
        return Resources(version, counted, problem=error.message)
    try:
        is_large = len(plain) > _THREAD_ABOVE_BYTES
        found = await asyncio.to_thread(addresses, plain) if is_large else addresses(plain)
    except msgspec.MsgspecError:  # a state of another engine, or one that its engine has encrypted
        return Resources(version, counted)
    return Resources(version, len(found), found[:MAX_ADDRESSES])


def addresses(state: bytes) -> list[str]:
    """Return the addresses of all managed resources in a state."""
    return [each.address for each in _managed(state)]


def _managed(state: bytes) -> list[ResourceRow]:
    found = document.decode(state)
    if found.checkpoint is not None:
        stack = [each for each in found.checkpoint.resources if each.is_managed]
        return [ResourceRow("", each.address, each.id[:MAX_ID_CHARACTERS]) for each in stack]
    return [
        ResourceRow(each.module, document.address(each.module, each.type, each.name, one.index_key), _id(one))
        for each in found.read_resources()
        if each.mode == "managed"
        for one in each.instances
    ]


async def page(
    objects: Objects, keys: Keyring, kept: StoredState, counted: int | None, search: str, start: int, count: int
) -> ResourcePage:
    """Return resources of a state whose address or id contains the search, the root module first."""
    version = kept.state.version or 0
    if kept.state.size > MAX_READ_BYTES:
        problem = f"the state has {kept.state.size:,} bytes, and the resources of at most {MAX_READ_BYTES:,} are listed"
        return ResourcePage(version, counted, problem=problem)
    try:
        plain = (await content.read(objects, keys, kept.context, kept.sealed)).content
        rows = await asyncio.to_thread(listed, plain)
    except (Undecryptable, Unavailable) as error:  # the rest of the page can be shown nevertheless
        return ResourcePage(version, counted, problem=error.message)
    except (msgspec.MsgspecError, RecursionError):
        return ResourcePage(version, counted, problem=_UNREADABLE)
    needle = search.strip().casefold()
    found = [each for each in rows if needle in each.address.casefold() or needle in each.id.casefold()]
    return ResourcePage(version, len(rows), len(found), found[start : start + count], start)


def listed(state: bytes) -> list[ResourceRow]:
    """Return all managed resources of a state in the order of their modules."""
    return sorted(_managed(state), key=lambda row: (row.module, row.address))


def _id(instance: StateInstance) -> str:
    if any(path and path[0].value == "id" for path in instance.sensitive_attributes):
        return ""
    found = instance.id
    return "" if found is None or isinstance(found, dict | list) else str(found)[:MAX_ID_CHARACTERS]
