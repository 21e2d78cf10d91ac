"""Reads of SQLite use the connection that writes while it is free, and another one while it is not."""

from collections.abc import AsyncIterator
from pathlib import Path
from sqlite3 import OperationalError

import pytest

from terracrew.errors import Unavailable
from terracrew.server.db import Database, Tx, Work, open_database


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    db = await open_database(f"{tmp_path}/a.db")
    yield db
    await db.close()


def adding(name: str) -> Work[None]:
    async def work(tx: Tx) -> None:
        await tx.run("INSERT INTO leases (name, holder, expires_at) VALUES (:name, 'me', 1)", name=name)

    return work


async def count(tx: Tx) -> int:
    return len(await tx.all("SELECT name FROM leases"))


async def test_a_read_during_a_transaction_sees_what_was_committed_before_it(sqlite: Database) -> None:
    await sqlite.write(adding("a"))
    seen: list[int] = []

    async def add_and_look(tx: Tx) -> None:
        await adding("b")(tx)
        seen.append(await sqlite.read(count))  # only here: on PostgreSQL, a unit of work may not do this
        seen.append(await count(tx))

    await sqlite.write(add_and_look)
    assert [*seen, await sqlite.read(count)] == [1, 2, 2]


async def test_what_a_read_writes_is_rolled_back_also_during_a_transaction(sqlite: Database) -> None:
    async def write_in_a_read(_: Tx) -> None:
        await sqlite.read(adding("b"))

    for attempt in (sqlite.read(adding("a")), sqlite.write(write_in_a_read)):
        with pytest.raises((OperationalError, Unavailable), match=r"read-?only"):
            await attempt
        assert await sqlite.read(count) == 0


async def test_a_lone_unit_of_work_that_fails_leaves_nothing_behind(sqlite: Database) -> None:
    async def add_and_fail(tx: Tx) -> None:
        await adding("a")(tx)
        raise ValueError("after the first statement")

    for _ in range(2):
        with pytest.raises(ValueError, match="after the first statement"):
            await sqlite.write(add_and_fail)
        assert await sqlite.read(count) == 0
    await sqlite.write(adding("a"))
    assert await sqlite.read(count) == 1
