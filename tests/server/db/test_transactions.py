"""A unit of work is isolated, complete or rolled back, and translated into our errors, on both databases."""

import asyncio
import time
from collections.abc import Callable

import pytest

from terracrew.errors import Conflict, Invalid, Unavailable
from terracrew.server.db import Database, Tx, Work

Add = Callable[..., Work[None]]
Contents = Work[dict[str, int]]


async def test_a_unit_that_fails_is_rolled_back_alone(db: Database, add: Add, contents: Contents) -> None:
    async def bad(tx: Tx) -> None:
        await add("lost")(tx)
        raise KeyError("not today")

    await db.write(add("a"))
    works = [add("b"), bad, add("c"), add("a"), add("d")]
    outcomes = await asyncio.gather(*(db.write(work) for work in works), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), KeyError, type(None), Conflict, type(None)]
    assert list(await db.read(contents)) == ["a", "b", "c", "d"]


async def test_a_thousand_concurrent_writes_are_all_there(db: Database, add: Add, contents: Contents) -> None:
    async def increment(tx: Tx) -> int:
        row = await tx.one("UPDATE things SET n = n + 1 WHERE id = :id RETURNING n", id="counter")
        assert row is not None
        return row["n"]

    await db.write(add("counter"))
    results = await asyncio.gather(*(db.write(increment) for _ in range(1000)))
    assert sorted(results) == list(range(1, 1001))
    assert await db.read(contents) == {"counter": 1000}


async def test_run_counts_the_rows_it_touched(db: Database, add: Add) -> None:
    async def work(tx: Tx) -> list[int]:
        return [
            await tx.run("UPDATE things SET n = 5 WHERE id <> :id", id="b"),
            await tx.run("UPDATE things SET n = 5 WHERE id = :id RETURNING id", id="b"),
            await tx.run("DELETE FROM things WHERE id = :id", id="nobody"),
        ]

    for name in "abc":
        await db.write(add(name))
    assert await db.write(work) == [2, 1, 0]


async def test_one_leaves_nothing_unfinished_behind(db: Database, add: Add, contents: Contents) -> None:
    async def work(tx: Tx) -> None:
        for name in "abc":
            await add(name)(tx)
        assert (await tx.one("SELECT id FROM things ORDER BY id")) == {"id": "a"}
        assert (await tx.one("SELECT id FROM things WHERE id = :id", id="nobody")) is None
        assert (await tx.one("UPDATE things SET n = n + 1 RETURNING n")) == {"n": 1}

    await db.write(work)
    assert await db.read(contents) == {"a": 1, "b": 1, "c": 1}


async def test_a_swallowed_error_still_ends_the_unit(db: Database, add: Add, contents: Contents) -> None:
    async def work(tx: Tx) -> str:
        await add("b")(tx)
        try:
            await add("a")(tx)
        except Conflict:
            return "as if nothing had happened"
        return "unreachable"

    await db.write(add("a"))
    with pytest.raises(Conflict):
        await db.write(work)
    assert await db.read(contents) == {"a": 0}


async def test_a_failed_transaction_takes_no_more_statements(db: Database, add: Add, contents: Contents) -> None:
    async def work(tx: Tx) -> None:
        try:
            await add("a")(tx)
        except Conflict:
            await add("b")(tx)

    await db.write(add("a"))
    with pytest.raises(Exception, match=r"abort|failed"):
        await db.write(work)
    assert await db.read(contents) == {"a": 0}


async def test_a_reader_cannot_write(db: Database, add: Add, contents: Contents) -> None:
    with pytest.raises(Exception, match=r"read-?only"):
        await db.read(add("a"))
    assert await db.read(contents) == {}


async def test_a_read_sees_what_was_committed_before_it_and_nothing_else(
    db: Database, add: Add, contents: Contents
) -> None:
    async def failing(tx: Tx) -> None:
        await add("uncommitted")(tx)
        raise KeyError

    for n in range(50):
        failed = asyncio.ensure_future(db.write(failing))
        await db.write(add(f"{n:02}"))
        assert list(await db.read(contents)) == [f"{m:02}" for m in range(n + 1)]
        with pytest.raises(KeyError):
            await failed


async def test_a_cancelled_caller_strands_nothing(db: Database, add: Add, contents: Contents) -> None:
    async def both(tx: Tx) -> None:
        await tx.run("UPDATE things SET n = n + 1 WHERE id = 'a'")
        await tx.run("UPDATE things SET n = n + 1 WHERE id = 'b'")

    await db.write(add("a"))
    await db.write(add("b"))
    for ticks in range(40):
        tasks = [asyncio.ensure_future(db.write(both)) for _ in range(20)]
        for _ in range(ticks):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
    state = await db.read(contents)
    assert state["a"] == state["b"] >= 40 * 10
    await db.write(add("still works"))


async def test_the_time_is_the_database_s_and_stands_still_in_a_transaction(db: Database) -> None:
    async def work(tx: Tx) -> tuple[float, float]:
        before = tx.now
        await tx.all("SELECT id FROM things")
        return before, tx.now

    before, after = await db.write(work)
    assert before == after
    assert abs(before - time.time()) < 1  # the test's server runs on this machine
    assert (await db.write(work))[0] > before


@pytest.mark.parametrize(
    ("arguments", "error", "kind", "constraint"),
    [
        ({"name": "a"}, Conflict, "unique", "things_pkey"),
        ({"name": "b", "label": "first"}, Conflict, "unique", "things_label"),
        ({"name": "b", "n": -1}, Invalid, "check", "things_positive"),
        ({"name": "b", "n": None}, Invalid, "not_null", "things.n"),
    ],
)
async def test_a_constraint_keeps_its_name_in_our_error(
    db: Database, add: Add, arguments: dict[str, object], error: type[Exception], kind: str, constraint: str
) -> None:
    await db.write(add("a", label="first"))
    with pytest.raises(error) as caught:
        await db.write(add(**arguments))
    assert getattr(caught.value, "details") == {"kind": kind, "constraint": constraint}  # noqa: B009


async def test_a_reference_to_nothing_and_from_something_is_a_conflict(db: Database, add: Add) -> None:
    async def delete(tx: Tx) -> None:
        await tx.run("DELETE FROM things WHERE id = 'a'")

    with pytest.raises(Conflict) as caught:
        await db.write(add("b", parent="a"))
    assert caught.value.details["kind"] == "foreign_key"
    await db.write(add("a"))
    await db.write(add("b", parent="a"))
    with pytest.raises(Conflict):
        await db.write(delete)


async def test_a_value_that_no_column_holds_is_invalid(db: Database, add: Add) -> None:
    with pytest.raises(Invalid):
        await db.write(add("a", n=2**63))
    with pytest.raises(Invalid):
        await db.write(add("\ud800"))


async def test_a_row_lock_is_understood_by_both(db: Database, add: Add) -> None:
    async def work(tx: Tx) -> object:
        return await tx.one("SELECT id FROM things ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")

    await db.write(add("a"))
    assert await db.write(work) == {"id": "a"}


async def test_a_closed_database_says_so(db: Database, add: Add, contents: Contents) -> None:
    await db.close()
    with pytest.raises(Unavailable):
        await db.write(add("a"))
    with pytest.raises(Unavailable):
        await db.read(contents)


async def test_an_action_that_fails_changes_nothing_for_anybody(db: Database, add: Add, contents: Contents) -> None:
    """It stopped every later write on SQLite. On PostgreSQL, a group that was committed ran a second time."""
    called: list[str] = []

    async def insert(tx: Tx, items: list[str]) -> list[str]:
        tx.on_commit(lambda: called.remove("nobody"))
        tx.on_commit(lambda: called.extend(items))
        await tx.each("INSERT INTO things (id, n) SELECT id, 0 FROM batch", {"id": "text"}, [(item,) for item in items])
        return items

    inserting = db.grouped(insert)
    async with asyncio.timeout(10):
        assert await asyncio.gather(inserting("a"), inserting("b")) == ["a", "b"]
        await db.write(add("c"))
    assert called == ["a", "b"]
    assert list(await db.read(contents)) == ["a", "b", "c"]
