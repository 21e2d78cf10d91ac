"""Callers that wait for the same kind of work share one transaction."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from terracrew.errors import Conflict, NotFound
from terracrew.server.db import Database, Tx, Work

Add = Callable[..., Work[None]]
Contents = Work[dict[str, int]]


class Incrementing:
    """Adds one to each thing, and remembers how large the groups were."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.began = threading.Event()

    async def __call__(self, tx: Tx, items: list[str]) -> list[int | Exception]:
        self.groups.append(len(items))
        self.began.set()
        rows = await tx.each(
            "UPDATE things SET n = things.n + 1 FROM batch WHERE things.id = batch.id RETURNING things.id, things.n",
            {"id": "text"},
            [(item,) for item in sorted(items)],
        )
        found = {row["id"]: row["n"] for row in rows}
        return [found.get(item, NotFound(item)) for item in items]


async def test_those_who_wait_share_a_transaction_and_each_gets_its_own_result(db: Database, add: Add) -> None:
    work = Incrementing()
    increment = db.grouped(work)
    for n in range(20):
        await db.write(add(f"{n:02}", n))
    assert await asyncio.gather(*(increment(f"{n:02}") for n in range(20))) == [n + 1 for n in range(20)]
    assert work.groups == [20]


async def test_what_comes_during_a_commit_is_the_next_group(db: Database, add: Add) -> None:
    work = Incrementing()
    increment = db.grouped(work)
    for n in range(5):
        await db.write(add(f"{n}"))
    first = asyncio.ensure_future(increment("0"))
    assert await asyncio.to_thread(work.began.wait, 10)
    await asyncio.gather(first, *(increment(f"{n}") for n in range(1, 5)))
    assert work.groups == [1, 4]


async def test_a_result_that_is_an_exception_is_raised_to_its_own_caller_only(
    db: Database, add: Add, contents: Contents
) -> None:
    increment = db.grouped(Incrementing())
    await db.write(add("a"))
    await db.write(add("b"))
    outcomes = await asyncio.gather(increment("a"), increment("nobody"), increment("b"), return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [1, NotFound, 1]
    assert await db.read(contents) == {"a": 1, "b": 1}


async def test_a_group_that_fails_is_taken_apart(db: Database, add: Add, contents: Contents) -> None:
    async def insert(tx: Tx, items: list[str]) -> list[str]:
        await tx.each("INSERT INTO things (id, n) SELECT id, 0 FROM batch", {"id": "text"}, [(item,) for item in items])
        return items

    inserting = db.grouped(insert)
    await db.write(add("b"))
    outcomes = await asyncio.gather(*(inserting(name) for name in "abc"), return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == ["a", Conflict, "c"]
    assert list(await db.read(contents)) == ["a", "b", "c"]


async def test_too_few_results_are_nobody_s_result(db: Database, add: Add) -> None:
    async def forgetful(tx: Tx, items: list[str]) -> list[str]:
        return []

    for group in (db.grouped(forgetful), db.grouped_reads(forgetful)):
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match="1 items came back as 0 results"):
                await group("a")


async def test_a_cancelled_caller_takes_nobody_with_it(db: Database, add: Add, contents: Contents) -> None:
    increment = db.grouped(Incrementing())
    for name in "abc":
        await db.write(add(name))
    tasks = [asyncio.ensure_future(increment(name)) for name in "abc"]
    await asyncio.sleep(0)
    tasks[0].cancel()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == [1, 1]
    assert await increment("b") == 2


async def test_a_group_of_reads_sees_what_was_committed_before_each_of_its_items_came(db: Database, add: Add) -> None:
    """A credential that was revoked before it is shown must not be found by a read that has begun for another one."""

    async def look(tx: Tx, items: list[str]) -> list[bool | Exception]:
        rows = await tx.each(
            "SELECT things.id FROM batch JOIN things ON things.id = batch.id",
            {"id": "text"},
            [(each,) for each in items],
        )
        found = {row["id"] for row in rows}
        return [each in found if each != "wrong" else NotFound(each) for each in items]

    is_there = db.grouped_reads(look)
    for index in range(50):
        name, early = f"{index}", asyncio.ensure_future(is_there("early"))
        assert await is_there(name) is False
        await db.write(add(name))
        assert await is_there(name) is True
        assert await early is False
    outcomes = await asyncio.gather(is_there("0"), is_there("wrong"), is_there("1"), return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [True, NotFound, True]


async def test_a_read_that_fails_does_not_fail_the_others_of_its_group(db: Database, add: Add) -> None:
    async def look(tx: Tx, items: list[str]) -> list[bool | Exception]:
        if "wrong" in items:
            raise NotFound("wrong")
        return [await tx.one("SELECT id FROM things WHERE id = :id", id=each) is not None for each in items]

    await db.write(add("a"))
    is_there = db.grouped_reads(look)
    outcomes = await asyncio.gather(*map(is_there, ["a", "wrong", "b"]), return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == [True, NotFound, False]


async def test_reads_of_one_moment_share_their_statements(db: Database) -> None:
    sizes: list[int] = []

    async def look(tx: Tx, items: list[int]) -> list[int | Exception]:
        await tx.one("SELECT id FROM things")
        sizes.append(len(items))
        return list(items)

    read = db.grouped_reads(look)
    tasks = [asyncio.ensure_future(read(number)) for number in range(100)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in outcomes if isinstance(each, int)] == [0, *range(2, 100)]
    assert len(sizes) < 10
