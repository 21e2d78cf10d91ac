"""SQLite has one process for a file and one writer, and commits many units of work at once."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from sqlite3 import OperationalError

import pytest

from terracrew.errors import Conflict, Invalid, Unavailable
from terracrew.server.db import Database, Tx, Work, open_database
from terracrew.server.db.sqlite import database

HOLDER = """
import asyncio, sys
from terracrew.server.db import open_database
async def main():
    db = await open_database(sys.argv[1])
    print("open", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture
async def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    monkeypatch.setattr(database, "MAX_GROUP_SECONDS", 60)  # a busy machine splits no group
    db = await open_database(f"{tmp_path}/a.db")

    async def work(tx: Tx) -> None:
        await tx.run(
            "CREATE TABLE nodes (id text PRIMARY KEY, parent text REFERENCES nodes (id) DEFERRABLE INITIALLY DEFERRED)"
        )

    await db.write(work)
    yield db
    await db.close()


def adding(name: str, parent: str | None = None) -> Work[None]:
    async def work(tx: Tx) -> None:
        tx.wake("nodes", name)
        await tx.run("INSERT INTO nodes (id, parent) VALUES (:id, :parent)", id=name, parent=parent)

    return work


async def count(tx: Tx) -> int:
    return len(await tx.all("SELECT id FROM nodes"))


async def one_group(
    db: Database, works: list[Work[None]], meanwhile: Callable[[list["asyncio.Task[None]"]], object]
) -> list[object]:
    """What is handed in during one turn of the loop is one group."""
    tasks = [asyncio.create_task(db.write(work)) for work in works]
    await asyncio.sleep(0)
    meanwhile(tasks)
    return list(await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10))


async def test_a_commit_that_fails_reaches_every_caller_of_the_group_and_wakes_nobody(sqlite: Database) -> None:
    with sqlite.listen("nodes") as wakeups:
        works = [adding("a"), adding("b", parent="nobody"), adding("c"), adding("a")]
        outcomes = await one_group(sqlite, works, lambda _: None)
        assert [type(outcome) for outcome in outcomes] == [Unavailable, Unavailable, Unavailable, Conflict]
        assert await sqlite.read(count) == 0
        await sqlite.write(adding("d"))
        assert await wakeups.get(10) == {("nodes", "d")}


async def test_a_caller_that_left_before_its_turn_is_passed_over(sqlite: Database) -> None:
    outcomes = await one_group(sqlite, [adding("a"), adding("b")], lambda tasks: tasks[0].cancel())
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1] is None
    assert await sqlite.read(count) == 1


async def test_a_unit_that_awaits_something_else_is_refused_and_rolled_back(sqlite: Database) -> None:
    closed = False

    async def wandering(tx: Tx) -> None:
        nonlocal closed
        await adding("a")(tx)
        try:
            await asyncio.sleep(0)
        finally:
            closed = True

    with pytest.raises(RuntimeError, match="awaited something other than its own transaction"):
        await sqlite.write(wandering)
    assert closed
    assert await sqlite.read(count) == 0
    await sqlite.write(adding("a"))


async def test_a_second_process_on_the_same_file_is_refused_and_told_which(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    argv = [sys.executable, "-c", HOLDER, f"sqlite:///{path}"]
    first = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        second = subprocess.run(argv, capture_output=True, text=True, timeout=30)
        assert second.returncode != 0
        assert f"Conflict: {path} is in use by another server (process {first.pid})" in second.stderr
        with pytest.raises(Conflict):
            await open_database(str(path))
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=10)
    await (await open_database(str(path))).close()  # a lock dies with its process, however that ends


async def test_a_file_that_was_closed_can_be_opened_again_at_once(tmp_path: Path) -> None:
    for _ in range(3):
        db = await open_database(f"{tmp_path}/new/a.db")
        with pytest.raises(Conflict):
            await open_database(f"{tmp_path}/new/a.db")
        await db.close()
    assert os.stat(tmp_path / "new" / "a.db").st_mode & 0o077 == 0


async def test_what_is_committed_survives_the_death_of_the_process(tmp_path: Path) -> None:
    script = HOLDER.replace(
        'print("open", flush=True)',
        """
    async def work(tx):
        await tx.run("INSERT INTO leases (name, holder, expires_at) VALUES ('a', 'b', 1)")
    await db.write(work)
    print("open", flush=True)
""",
    )
    process = subprocess.Popen([sys.executable, "-c", script, f"{tmp_path}/a.db"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    process.kill()
    process.communicate(timeout=10)

    async def work(tx: Tx) -> object:
        return await tx.one("SELECT holder FROM leases")

    db = await open_database(f"{tmp_path}/a.db")
    assert await db.read(work) == {"holder": "b"}
    await db.close()


async def test_an_address_that_means_no_database_is_refused() -> None:
    for url in ("mysql://host/db", "sqlite://relative.db"):
        with pytest.raises(Invalid):
            await open_database(url)


async def test_a_text_that_is_not_utf8_is_reported_as_such_and_the_next_reader_sees_the_repaired_row(
    sqlite: Database,
) -> None:
    """Symptom: an AttributeError hid the reason, and the page kept failing after the row had been repaired."""

    async def damage(tx: Tx) -> None:
        await tx.run("INSERT INTO nodes (id) VALUES (CAST(x'ff' AS text)), ('last')")

    async def first(tx: Tx) -> str:
        row = await tx.one("SELECT id FROM nodes ORDER BY id DESC")
        assert row is not None
        return str(row["id"])

    async def repair(tx: Tx) -> None:
        await tx.run("UPDATE nodes SET id = 'repaired' WHERE id <> 'last'")

    await sqlite.write(damage)
    with pytest.raises(OperationalError, match="decode to UTF-8"):
        await sqlite.read(first)
    await sqlite.write(repair)
    assert await sqlite.read(first) == "repaired"
