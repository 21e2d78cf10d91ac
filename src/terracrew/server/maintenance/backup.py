"""A backup of a server on SQLite, made while it runs: its directory is a data directory that a server can be started on.

The database is copied first, as it is at one moment, and the objects after it. An object is stored before the row that names
it is committed, so every object that the copied database names is among those that are copied later.
"""

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from terracrew import __version__
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.secrets.keyring import FILE_NAME as MASTER_KEY
from terracrew.settings.server import ServerSettings
from terracrew.system import durable

DATABASE = "terracrew.db"
OBJECTS = "objects"
MANIFEST = "backup.json"
RESTORED_MANIFEST = "backup.restored.json"
_POSTGRES = (
    "the database is PostgreSQL: make a backup of it with pg_dump, and after that copy the object store; "
    "see docs/operations.md"
)


class Backup(msgspec.Struct, frozen=True):
    """Describes what was copied. The file with it is written last, so a directory that has the file is complete."""

    version: str
    made_at: datetime
    migration: int
    """The number of the newest migration that was applied to the database."""
    database_bytes: int
    objects: int
    left_out: list[str]
    """What an operator has to back up separately, because this command cannot copy it."""


def restored_from(directory: Path) -> str:
    """Return what says that a data directory is a backup on which no server was started yet; empty if it is none."""
    try:
        made = msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Backup)
    except FileNotFoundError:
        return ""
    except (OSError, msgspec.MsgspecError) as error:
        return f"it was started on a backup, whose {MANIFEST} cannot be read: {error}"
    return f"it was started on the backup of {made.made_at:%Y-%m-%d %H:%M:%S} UTC"


def forget_manifest(directory: Path) -> None:
    """Rename the manifest of a restored backup, because from now on the directory is that of a running server."""
    if (directory / MANIFEST).exists():
        durable.rename(directory / MANIFEST, directory / RESTORED_MANIFEST)


def make(settings: ServerSettings, target: Path) -> Backup:
    """Copy the database, the objects and the master key into a new directory that only its owner can read."""
    if settings.is_postgres:
        raise Invalid(_POSTGRES)
    source = Path(settings.database.removeprefix("sqlite:///"))
    if not source.exists():
        raise NotFound(f"there is no database at {source}: give the server's own --data-directory")
    target = target.expanduser().absolute()
    if target.exists() and any(target.iterdir()):
        raise Conflict(f"{target} is not empty: name a new directory for each backup")
    durable.make_directory(target)
    target.chmod(0o700)
    migration = _copy_database(source, target / DATABASE)
    left_out: list[str] = []
    count = copy_objects(settings, target / OBJECTS, left_out)
    _copy_key(settings, target / MASTER_KEY, left_out)
    size = (target / DATABASE).stat().st_size
    made = Backup(__version__, datetime.now(UTC), migration, size, count, left_out)
    durable.write(target / MANIFEST, msgspec.json.format(msgspec.json.encode(made), indent=2))
    return made


def _copy_database(source: Path, target: Path) -> int:
    """Copy the database as of one moment, while writers continue."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(source, timeout=30.0)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))
    durable.sync_file(target)
    with closing(sqlite3.connect(f"file:{target}?mode=ro", uri=True)) as copied:
        (verdict,) = copied.execute("PRAGMA quick_check").fetchone()
        if verdict != "ok":
            raise Conflict(f"the copy of the database is damaged ({verdict}): look at the disk of {source}")
        (migration,) = copied.execute("SELECT max(number) FROM migrations").fetchone()
    return migration


def copy_objects(settings: ServerSettings, target: Path, left_out: list[str]) -> int:
    url = urlsplit(settings.objects)
    if url.scheme != "file":
        left_out.append(f"the object store {url.scheme}://{url.netloc}{url.path}: make its backup after this one")
        return 0
    source = Path(unquote(url.path))
    target.mkdir(mode=0o700)
    count = 0
    for folder, _, names in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            try:
                shutil.copy2(Path(folder) / name, into / name)
            except FileNotFoundError:
                continue  # deleted during the backup, with the row that named it
            durable.sync_file(into / name)
            count += 1
        durable.sync_directory(into)
    return count


def _copy_key(settings: ServerSettings, target: Path, left_out: list[str]) -> None:
    if settings.master_key:
        left_out.append("the master key, which was given as text")
        return
    file = settings.master_key_file or settings.directory / MASTER_KEY
    if settings.master_key_file is not None:
        left_out.append(f"the master key {file}")
        return
    durable.write(target, file.read_bytes())
