"""Which object store belongs to a database. Both have the same id, so that no server starts with another store.

Without it, a server whose store is another one (a folder of its own, a wrong prefix, a restored database beside an empty bucket)
would start, and jobs would fail because their objects are elsewhere.

The store has its id in an object, and the database has it in a row, with the place where the store was last. A copy of the store
has the same id, so a restored backup and a bucket that was moved need nothing. The first server of a new database makes the id: a
lease ensures that two that start together do not make two.
"""

import asyncio
import socket
from urllib.parse import urlsplit

import msgspec

from terracrew import ids
from terracrew.errors import Invalid
from terracrew.server.audit import service as audit
from terracrew.server.db import lease, open_database, stored_values
from terracrew.server.db.seam import Database, Tx
from terracrew.server.objects import ID_NAME, Objects, open_objects
from terracrew.server.principals.model import SYSTEM
from terracrew.server.retention import usage_reads
from terracrew.settings.server import ServerSettings

NAME = "object_store"
COMMAND = "terracrew server … adopt-object-store"
LOOKED_FOR_ROWS = 100
"""How many of the newest objects of each kind are looked for in a store before a database adopts it."""
_LEASE = "object store"
_LEASE_SECONDS = 60.0
_PAUSE_SECONDS = 0.1


class KnownStore(msgspec.Struct, frozen=True):
    """The store of a database."""

    id: str
    place: str
    """Where it was when a server last started with it."""


class StoreSurvey(msgspec.Struct, frozen=True):
    """What is known of a store before a database adopts it."""

    place: str
    id: str | None
    known: KnownStore | None
    """The store that the database has until now."""
    looked_for: int
    """How many objects that the database refers to were looked for in it."""
    missing: int

    @property
    def is_own(self) -> bool:
        return self.known is not None and self.known.id == self.id


async def require(db: Database, objects: Objects, settings: ServerSettings, server_id: str) -> None:
    """Refuse to start if the store is not that of the database. A new database takes a new store for its own."""
    place = _place(objects)
    known = await db.read(_known) or await _first(db, objects, place, server_id)
    found = await objects.read_id()
    if found != known.id:
        raise Invalid(_refusal(place, found, known, settings))
    if known.place != place:
        await db.write(lambda tx: _put(tx, KnownStore(known.id, place)))
    objects.id = known.id


async def _first(db: Database, objects: Objects, place: str, server_id: str) -> KnownStore:
    """Make the id of a new database and its store, unless another server does that at this moment."""
    while not await lease.acquire(db, _LEASE, server_id, _LEASE_SECONDS):  # noqa: ASYNC110  (the other one is a process elsewhere)
        await asyncio.sleep(_PAUSE_SECONDS)
    try:
        if known := await db.read(_known):
            return known
        found = await objects.read_id()
        if found is not None and await objects.is_used() and not await _has_own_objects(db, objects):
            raise Invalid(
                f"object_store: {place} is in use by another database, and this database is new: name an empty folder, bucket or "
                f"prefix. If that database is gone and this one takes its place, run `{COMMAND}` with the same options"
            )
        made = KnownStore(found or await _give_id(objects), place)
        await db.write(lambda tx: _put(tx, made))
        return made
    finally:
        await lease.release(db, _LEASE, server_id)


async def _has_own_objects(db: Database, objects: Objects) -> bool:
    """Return whether the store has an object that the database refers to, so that only the row with the id is missing.

    The server may have ended before it wrote the row, or the database was restored from a backup that is older than the row.
    """
    for name in await db.read(lambda tx: usage_reads.newest_objects(tx, LOOKED_FOR_ROWS)):
        if await objects.exists(name):
            return True
    return False


async def _give_id(objects: Objects) -> str:
    made = ids.new("sto")
    await objects.put(ID_NAME, f"{made}\n".encode())
    return made


def _refusal(place: str, found: str | None, known: KnownStore, settings: ServerSettings) -> str:
    if found is None:
        what = (
            f"{place} is not the object store of this database: it has no id, so it is new, emptied or another folder"
        )
    else:
        what = f"{place} is not the object store of this database: its id is {found} instead of {known.id}"
    several = ""
    if not settings.object_store:
        several = " By default the store is a folder in the data directory, which serves one server alone."
    return (
        f"object_store: {what}. The store of this database was last at {known.place}.{several} Set --object-store to a "
        "store that all servers of the database reach (s3://…, gs://…, az://…, or file:///… on a shared file system). If the "
        f"objects were moved here, or are lost, run `{COMMAND}` with the same options"
    )


def survey(settings: ServerSettings) -> StoreSurvey:
    """Look at the store that these settings name, and at how many objects of the database it has."""
    return asyncio.run(_survey(settings))


async def _survey(settings: ServerSettings) -> StoreSurvey:
    objects = open_objects(settings.objects)
    await objects.try_out()
    db = await open_database(settings.database)
    try:
        return await look(db, objects)
    finally:
        await db.close()


async def look(db: Database, objects: Objects) -> StoreSurvey:
    """Look for the newest objects that the database refers to."""
    known = await db.read(_known)
    names = await db.read(lambda tx: usage_reads.newest_objects(tx, LOOKED_FOR_ROWS))
    missing = [name for name in names if not await objects.exists(name)]
    return StoreSurvey(_place(objects), await objects.read_id(), known, len(names), len(missing))


def adopt(settings: ServerSettings) -> KnownStore:
    """Make the store that these settings name the one of the database."""
    return asyncio.run(_adopt(settings))


async def _adopt(settings: ServerSettings) -> KnownStore:
    db = await open_database(settings.database)
    try:
        return await bind(db, open_objects(settings.objects))
    finally:
        await db.close()


async def bind(db: Database, objects: Objects) -> KnownStore:
    """Make a store the one of the database. It gets an id if it has none, and otherwise keeps it: another database may use it.

    Servers that still use the former store refuse to start again.
    """
    made = KnownStore(await objects.read_id() or await _give_id(objects), _place(objects))

    async def work(tx: Tx) -> None:
        await _put(tx, made)
        await audit.record(tx, SYSTEM, "server.adopt_store", "server", made.id, {"place": made.place})

    await db.write(work)
    return made


def _place(objects: Objects) -> str:
    """Return where a store is. A folder has the same name on several machines, so it is named with its machine."""
    is_folder = urlsplit(objects.place).scheme == "file"
    return f"{objects.place} on {socket.gethostname()}" if is_folder else objects.place


async def _known(tx: Tx) -> KnownStore | None:
    stored = await stored_values.get(tx, NAME)
    return None if stored is None else msgspec.json.decode(stored, type=KnownStore)


async def _put(tx: Tx, known: KnownStore) -> None:
    await stored_values.put(tx, NAME, msgspec.json.encode(known))
