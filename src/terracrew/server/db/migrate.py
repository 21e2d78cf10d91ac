"""Numbered, forward-only migrations, one set of files for both databases."""

import re
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import LiteralString, NamedTuple, Protocol, cast

from terracrew.errors import Incompatible
from terracrew.server.db.seam import T, Tx, Work

_FILE = re.compile(r"(\d{4})_(\w+)\.sql\Z")
_TABLE = """CREATE TABLE IF NOT EXISTS migrations (
    number bigint PRIMARY KEY,
    name text NOT NULL,
    applied_at double precision NOT NULL
)"""


class Migration(NamedTuple):
    number: int
    name: str
    statements: tuple[LiteralString, ...]


class Write(Protocol):
    async def __call__(self, work: Work[T], /) -> T: ...


def known() -> list[Migration]:
    """Return the migrations of this version of Terracrew, in order."""
    folder = files("terracrew.server.db") / "migrations"
    found = [(_FILE.match(file.name), file) for file in folder.iterdir()]
    return sorted(
        Migration(int(match[1]), match[2], split(file.read_text("utf-8"))) for match, file in found if match is not None
    )


def split(script: str) -> tuple[LiteralString, ...]:
    """Return the statements of a script: each ends with a semicolon at the end of a line."""
    code = "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("--"))
    statements = (part.strip() for part in re.split(r";[ \t]*$", code, flags=re.MULTILINE))
    return tuple(cast("LiteralString", statement) for statement in statements if statement)


async def migrate(
    write: Write, migrations: list[Migration] | None = None, lock: Callable[[Tx], Awaitable[object]] | None = None
) -> list[Migration]:
    """Apply the missing migrations, each in its own transaction, and return them.

    `lock` keeps other servers that start at the same time out until the transaction ends.
    """
    migrations = known() if migrations is None else migrations
    applied: list[Migration] = []

    async def step(tx: Tx) -> Migration | None:
        if lock is not None:
            await lock(tx)
        await tx.run(_TABLE)
        at: int = max((row["number"] for row in await tx.all("SELECT number FROM migrations")), default=0)
        newest_known = migrations[-1].number if migrations else 0
        if at > newest_known:
            raise Incompatible(
                f"the database is at version {at}, this program knows {newest_known}: install a newer Terracrew",
                database=at,
                program=newest_known,
            )
        for migration in migrations:
            if migration.number > at:
                for statement in migration.statements:
                    await tx.run(statement)
                await tx.run(
                    "INSERT INTO migrations (number, name, applied_at) VALUES (:number, :name, :now)",
                    number=migration.number,
                    name=migration.name,
                    now=tx.now,
                )
                return migration
        return None

    while migration := await write(step):
        applied.append(migration)
    return applied
