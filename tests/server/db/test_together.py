"""Two parts of a unit of work that do not depend on each other share their round trips on PostgreSQL."""

from collections.abc import Callable

import pytest

from terracrew.errors import Conflict
from terracrew.server.db import Columns, Database, Row, Tx, Work
from terracrew.server.db.statements import sql as texts

Add = Callable[..., Work[None]]
THING: Columns = {"id": "text", "n": "bigint"}
INSERT = "INSERT INTO things (id, n) SELECT id, n FROM batch WHERE true"


async def count(tx: Tx) -> int:
    row = await tx.one("SELECT count(*) AS n FROM things")
    return 0 if row is None else row["n"]


async def numbers(tx: Tx, last: int) -> list[int]:
    rows = await tx.all(
        """WITH RECURSIVE numbers (n) AS (SELECT CAST(:last AS bigint) UNION ALL SELECT n - 1 FROM numbers WHERE n > 1)
        SELECT n FROM numbers ORDER BY n DESC""",
        last=last,
    )
    return [row["n"] for row in rows]


async def test_each_part_gets_its_own_rows_in_their_order(db: Database) -> None:
    async def every_type(tx: Tx) -> list[Row]:
        columns: Columns = {"t": "text", "i": "bigint", "f": "double precision", "b": "boolean", "y": "bytea"}
        rows = [("ä'\n:x $1", 2**62, 1.5, True, b"\x00\xff"), (None, -1, 0.1, False, b"")]
        return await tx.each("SELECT t, i, f, b, y FROM batch", columns, rows)

    async def work(tx: Tx) -> None:
        found, counted = await tx.together(every_type(tx), numbers(tx, 5))
        assert [tuple(row.values()) for row in found] == [
            ("ä'\n:x $1", 2**62, 1.5, True, b"\x00\xff"),
            (None, -1, 0.1, False, b""),
        ]
        assert counted == [5, 4, 3, 2, 1]
        assert await tx.together(numbers(tx, 1), numbers(tx, 3)) == ([1], [3, 2, 1])

    await db.write(work)


async def test_columns_of_the_same_name_are_not_confused_and_rows_of_nulls_are_rows(db: Database) -> None:
    async def nothing(tx: Tx) -> list[Row]:
        return await tx.all("SELECT id, n FROM things")

    async def nulls(tx: Tx) -> list[Row]:
        return await tx.all("SELECT CAST(NULL AS text) AS id, CAST(NULL AS bigint) AS n")

    async def work(tx: Tx) -> object:
        return await tx.together(nothing(tx), nulls(tx)), await tx.together(nulls(tx), nothing(tx))

    row = {"id": None, "n": None}
    assert await db.read(work) == (([], [row]), ([row], []))


async def test_changes_are_made_whether_they_return_rows_or_not(
    db: Database, add: Add, contents: Work[dict[str, int]]
) -> None:
    async def insert(tx: Tx, name: str, n: int) -> None:
        assert await tx.each(INSERT, THING, [(name, n)]) == []

    async def add_to(tx: Tx, name: str) -> int:
        row = await tx.one("UPDATE things SET n = n + 1 WHERE id = :id RETURNING n", id=name)
        return 0 if row is None else row["n"]

    async def remove(tx: Tx, name: str) -> int:
        return await tx.run("DELETE FROM things WHERE id = :id", id=name)

    async def work(tx: Tx) -> object:
        await tx.together(insert(tx, "b", 2), insert(tx, "c", 3))
        return (
            await tx.together(add_to(tx, "a"), insert(tx, "d", 4)),
            await tx.together(remove(tx, "c"), add_to(tx, "nobody")),
            await count(tx),
        )

    await db.write(add("a", 1))
    assert await db.write(work) == ((2, None), (1, 0), 3)
    assert await db.read(contents) == {"a": 2, "b": 2, "d": 4}


async def test_a_part_may_ask_often_or_never_and_have_parts_itself(db: Database, add: Add) -> None:
    async def often(tx: Tx) -> list[int]:
        return [await count(tx) for _ in range(3)]

    async def never(tx: Tx) -> float:
        return tx.now

    async def parts(tx: Tx) -> object:
        return await tx.together(never(tx), often(tx))

    async def work(tx: Tx) -> None:
        assert await tx.together(often(tx), never(tx)) == ([1, 1, 1], tx.now)
        assert await tx.together(parts(tx), count(tx)) == ((tx.now, [1, 1, 1]), 1)
        assert await tx.together(never(tx), never(tx)) == (tx.now, tx.now)

    await db.write(add("a", 1))
    await db.write(work)


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_statement_that_fails_ends_both_parts_and_the_unit(
    db: Database, add: Add, contents: Work[dict[str, int]], is_first: bool
) -> None:
    ended: list[str] = []

    async def fails(tx: Tx) -> None:
        await tx.each(INSERT, THING, [("a", 1)])
        ended.append("it went on")

    async def other(tx: Tx) -> None:
        await tx.each(INSERT, THING, [("b", 1)])
        await tx.each(INSERT, THING, [("c", 1)])

    async def work(tx: Tx) -> None:
        parts = (fails(tx), other(tx)) if is_first else (other(tx), fails(tx))
        with pytest.raises(Conflict):
            await tx.together(*parts)

    await db.write(add("a", 1))
    with pytest.raises(Conflict):
        await db.write(work)  # an error that was caught does not let the rest be committed
    assert await db.read(contents) == {"a": 1}
    assert not ended


@pytest.mark.parametrize("is_first", [True, False])
async def test_an_error_of_a_part_itself_reaches_the_caller(db: Database, is_first: bool) -> None:
    async def fails(tx: Tx) -> None:
        await count(tx)
        raise ValueError("of its own")

    async def work(tx: Tx) -> None:
        await tx.together(*(fails(tx), count(tx)) if is_first else (count(tx), fails(tx)))

    with pytest.raises(ValueError, match="of its own"):
        await db.write(work)
    assert await db.read(count) == 0, "the connection can be used"


async def test_a_read_that_locks_its_rows_returns_them(db: Database, add: Add) -> None:
    async def hold(tx: Tx) -> Row | None:
        return await tx.one("SELECT n FROM things WHERE id = :id FOR NO KEY UPDATE OF things", id="a")

    async def work(tx: Tx) -> object:
        return await tx.together(hold(tx), count(tx))

    await db.write(add("a", 7))
    assert await db.write(work) == ({"n": 7}, 1)


def test_parameters_are_counted_on_and_texts_are_left_alone() -> None:
    found = texts.combined("SELECT '$1', $1, $2", 'UPDATE things SET "$1" = $1 -- RETURNING', 2)
    assert found.returning == (0,)
    assert "s0 AS (SELECT '$1', $1, $2\n)" in found.text
    assert 's1 AS (UPDATE things SET "$1" = $3 -- RETURNING\n)' in found.text
