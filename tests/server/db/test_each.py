"""One statement changes or reads many rows."""

from collections.abc import Callable

import pytest

from terracrew.errors import Conflict, Invalid
from terracrew.server.db import Columns, Database, Param, Tx, Work

Add = Callable[..., Work[None]]


async def test_every_type_arrives_as_it_was_sent(db: Database) -> None:
    columns: Columns = {"t": "text", "i": "bigint", "f": "double precision", "b": "boolean", "y": "bytea"}
    rows = [("ä'\n", 2**62, 1.5, True, b"\x00\xff"), (None, -1, 0.1, False, b""), ("", 0, None, None, None)]

    async def work(tx: Tx) -> list[tuple[object, ...]]:
        found = await tx.each("SELECT t, i, f, b, y FROM batch", columns, rows)
        return [tuple(row.values()) for row in found]

    assert await db.write(work) == rows


async def test_a_read_sees_all_rows_at_once(db: Database, add: Add) -> None:
    """SQLite took one statement for each row of a page, and a count over them counted one row at a time."""

    async def work(tx: Tx) -> object:
        columns: Columns = {"id": "text", "n": "bigint", "is_known": "boolean"}
        rows = [("a", 2**62, True), ("ä'\"\n", -1, None), ("a", 0, False)]
        values = await tx.each("SELECT id, n, is_known FROM batch", columns, rows)
        assert [(row["id"], row["n"], row["is_known"]) for row in values] == rows
        return await tx.each("SELECT count(*) AS n FROM batch JOIN things ON things.id = batch.id", columns, rows)

    await db.write(add("a", 1))
    assert await db.read(work) == [{"n": 2}]


async def test_an_update_changes_all_rows_at_once(db: Database, add: Add, contents: Work[dict[str, int]]) -> None:
    """SQLite gave up the interpreter's lock at each of 200 rows, and beside a thread that rendered pages this took 90 ms."""

    async def work(tx: Tx) -> object:
        sql = "UPDATE things SET n = batch.n + (SELECT count(*) FROM batch) FROM batch WHERE things.id = batch.id"
        return await tx.each(sql, {"id": "text", "n": "bigint"}, [("a", 10), ("b", 20), ("z", 30)])

    for name in ("a", "b", "c"):
        await db.write(add(name, 1))
    assert await db.write(work) == []
    assert await db.read(contents) == {"a": 13, "b": 23, "c": 1}


@pytest.mark.parametrize("rows", [[("a", 1), ("b", 2**63)], [("a", -(2**63) - 1), ("b", 2)], [("\ud800", 1), ("b", 2)]])
async def test_a_value_that_cannot_be_stored_is_refused_among_many_rows(
    db: Database, add: Add, contents: Work[dict[str, int]], rows: list[tuple[Param, ...]]
) -> None:
    """SQLite got the rows as JSON, and stored 9.223372036854776e+18, and a text that nobody could read any more."""

    async def work(tx: Tx) -> None:
        sql = "UPDATE things SET n = batch.n FROM batch WHERE things.id = batch.id OR batch.id NOT IN ('a', 'b')"
        await tx.each(sql, {"id": "text", "n": "bigint"}, rows)

    for name in ("a", "b"):
        await db.write(add(name, 0))
    with pytest.raises((Invalid, ValueError)):
        await db.write(work)
    assert await db.read(contents) == {"a": 0, "b": 0}


async def test_rows_are_inserted_updated_and_returned_together(db: Database, contents: Work[dict[str, int]]) -> None:
    async def work(tx: Tx) -> list[str]:
        upsert = """INSERT INTO things (id, n) SELECT id, n FROM batch WHERE true
                    ON CONFLICT (id) DO UPDATE SET n = things.n + excluded.n RETURNING id"""
        columns: Columns = {"id": "text", "n": "bigint"}
        first = await tx.each(upsert, columns, [("a", 1), ("b", 2)])
        second = await tx.each(upsert, columns, [("b", 10), ("c", 3)])
        await tx.each("DELETE FROM things WHERE id IN (SELECT id FROM batch)", {"id": "text"}, [("a",), ("z",)])
        return [row["id"] for row in first + second]

    assert sorted(await db.write(work)) == ["a", "b", "b", "c"]
    assert await db.read(contents) == {"b": 12, "c": 3}


async def test_a_statement_may_bring_a_with_clause_of_its_own(db: Database, add: Add) -> None:
    async def work(tx: Tx) -> object:
        return await tx.each(
            """WITH large AS (SELECT id FROM things WHERE n > 5)
               SELECT batch.id FROM batch JOIN large ON large.id = batch.id""",
            {"id": "text"},
            [("a",), ("b",)],
        )

    await db.write(add("a", 9))
    await db.write(add("b", 1))
    assert await db.read(work) == [{"id": "a"}]


async def test_no_rows_run_nothing(db: Database) -> None:
    async def work(tx: Tx) -> object:
        return await tx.each("SELECT no_such_column FROM batch", {"id": "text"}, [])

    assert await db.write(work) == []


async def test_one_bad_row_undoes_all(db: Database, contents: Work[dict[str, int]]) -> None:
    async def work(tx: Tx) -> None:
        await tx.each("INSERT INTO things (id, n) SELECT id, 0 FROM batch", {"id": "text"}, [("a",), ("b",), ("a",)])

    with pytest.raises(Conflict):
        await db.write(work)
    assert await db.read(contents) == {}
