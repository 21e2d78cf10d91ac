"""Numbered, forward-only migrations, one set of files for both databases.

A file that says `-- older servers: continue` changes nothing that a server of the version before needs, so that such a server goes
on after it. Before every other one, the servers that do not know it end (ADR 0082).
"""

import asyncio
import re
import time
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import LiteralString, NamedTuple, Protocol, cast

from terracrew import __version__, ids
from terracrew.errors import Conflict
from terracrew.logging import get_logger
from terracrew.server.db import servers
from terracrew.server.db.seam import T, Tx, Work
from terracrew.server.db.servers import KnownServer

ANNOUNCED_SECONDS = 30.0
MAX_WAIT_SECONDS = 90.0
"""How long to wait for older servers. One that notices the announcement needs up to twenty seconds to end."""
PAUSE_SECONDS = 0.5
LOG_EVERY_SECONDS = 10.0
_FILE = re.compile(r"(\d{4})_(\w+)\.sql\Z")
_CONTINUE = re.compile(r"^-- older servers: continue$", re.MULTILINE)
_TABLE = """CREATE TABLE IF NOT EXISTS migrations (
    number bigint PRIMARY KEY,
    name text NOT NULL,
    applied_at double precision NOT NULL,
    lets_older_continue boolean NOT NULL,
    applied_by text NOT NULL
)"""


log = get_logger("terracrew.db")


class Migration(NamedTuple):
    number: int
    name: str
    statements: tuple[LiteralString, ...]
    lets_older_continue: bool = False
    """Whether servers that do not know it can go on after it."""


class Write(Protocol):
    async def __call__(self, work: Work[T], /) -> T: ...


@cache
def known() -> tuple[Migration, ...]:
    """Return the migrations of this version of Terracrew, in order."""
    folder = files("terracrew.server.db") / "migrations"
    found = [(_FILE.match(file.name), file) for file in folder.iterdir()]
    return tuple(
        sorted(parse(match[1], match[2], file.read_text("utf-8")) for match, file in found if match is not None)
    )


def newest_known() -> int:
    """Return the number of the newest migration of this version of Terracrew."""
    return known()[-1].number


def parse(number: str, name: str, script: str) -> Migration:
    """Return the migration of a file."""
    return Migration(int(number), name, split(script), _CONTINUE.search(script) is not None)


def split(script: str) -> tuple[LiteralString, ...]:
    """Return the statements of a script: each ends with a semicolon at the end of a line."""
    code = "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("--"))
    statements = (part.strip() for part in re.split(r";[ \t]*$", code, flags=re.MULTILINE))
    return tuple(cast("LiteralString", statement) for statement in statements if statement)


async def migrate(
    write: Write, migrations: Sequence[Migration] | None = None, *, has_other_servers: bool = False
) -> list[Migration]:
    """Apply the missing migrations, each in its own transaction, and return them.

    If there can be other servers, `write` keeps those that start at the same time out until the transaction ends.
    """
    step = _NextMigration(known() if migrations is None else migrations, has_other_servers)
    applied: list[Migration] = []
    wait = _Wait()
    try:
        while (done := await write(step)) is not None:
            if isinstance(done, Migration):
                applied.append(done)
            elif done:
                await wait.turn(done)
    finally:
        if step.is_announced:
            await write(lambda tx: servers.leave(tx, step.id))
    return applied


class _NextMigration:
    """A unit of work that applies the next migration. It returns None if there is none, and the servers that have to end before."""

    def __init__(self, migrations: Sequence[Migration], has_other_servers: bool) -> None:
        self._migrations, self._has_other_servers = migrations, has_other_servers
        self._newest_known = migrations[-1].number if migrations else 0
        self.id = ids.new("srv")
        self.is_announced = False

    async def __call__(self, tx: Tx) -> Migration | list[KnownServer] | None:
        await tx.run(_TABLE)
        at: int = max((row["number"] for row in await tx.all("SELECT number FROM migrations")), default=0)
        if at and (problem := await servers.find_problem(tx, self._newest_known)):
            raise problem
        missing = [each for each in self._migrations if each.number > at]
        if not missing:
            return None
        if self._has_other_servers and at and not missing[0].lets_older_continue:
            number = max(each.number for each in missing if not each.lets_older_continue)
            others = await servers.older_than(tx, number)
            if others or not self.is_announced:
                # An older server that starts writes its row before it looks for announcements. So each sees the other one, or both do.
                await servers.renew(tx, self.id, self._newest_known, announced=number, seconds=ANNOUNCED_SECONDS)
                self.is_announced = True
                return others
        await _apply(tx, missing[0])
        return missing[0]


async def _apply(tx: Tx, migration: Migration) -> None:
    for statement in migration.statements:
        await tx.run(statement)
    await tx.run(
        """INSERT INTO migrations (number, name, applied_at, lets_older_continue, applied_by)
        VALUES (:number, :name, :now, :continues, :version)""",
        number=migration.number,
        name=migration.name,
        now=tx.now,
        continues=migration.lets_older_continue,
        version=__version__,
    )


class _Wait:
    """Waits until older servers have ended, for a limited time."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._logged_at = float("-inf")

    async def turn(self, others: list[KnownServer]) -> None:
        names = ", ".join(map(str, others))
        now = time.monotonic()
        if now - self._began > MAX_WAIT_SECONDS:
            raise Conflict(
                f"the database is still used by {names}, and Terracrew {__version__} has to change it in a way that an older server "
                f"cannot use. Stop these servers, and start this one again ({servers.GUIDE})"
            )
        if now - self._logged_at >= LOG_EVERY_SECONDS:
            log.info("waiting for older servers to end before the database is changed", servers=names)
            self._logged_at = now
        await asyncio.sleep(PAUSE_SECONDS)
