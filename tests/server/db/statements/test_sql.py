"""One SQL text becomes a statement of SQLite and a statement of PostgreSQL."""

import pytest

from terracrew.server.db.statements import sql


def test_names_become_numbers_and_a_repeated_name_keeps_its_number() -> None:
    text, names = sql.numbered("UPDATE t SET a = :a, b = :b WHERE a < :a")
    assert (text, names) == ("UPDATE t SET a = $1, b = $2 WHERE a < $1", ("a", "b"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x::text FROM t",
        "SELECT ':name' FROM t",
        "SELECT 'it''s :name' FROM t",
        'SELECT ":name" FROM t',
        "SELECT 1 -- not :name\n FROM t",
        "SELECT 1 /* not\n :name */ FROM t",
    ],
)
def test_what_only_looks_like_a_name_is_left_alone(text: str) -> None:
    assert sql.numbered(text) == (text, ())  # pyright: ignore[reportArgumentType]


def test_a_cast_of_a_parameter_is_kept() -> None:
    assert sql.numbered("SELECT :a::text").text == "SELECT $1::text"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT 1 FROM t LIMIT 1 FOR UPDATE SKIP LOCKED", "SELECT 1 FROM t LIMIT 1 "),
        ("SELECT 1 FROM t for update", "SELECT 1 FROM t "),
        ("SELECT 1 FROM t FOR NO KEY UPDATE OF t NOWAIT", "SELECT 1 FROM t "),
        ("SELECT ' FOR UPDATE' FROM t", "SELECT ' FOR UPDATE' FROM t"),
        ("""SELECT 1 FROM t WHERE a > (b || '/') COLLATE "C" AND c""", "SELECT 1 FROM t WHERE a > (b || '/')  AND c"),
        ("""SELECT 'COLLATE "C"' FROM t""", """SELECT 'COLLATE "C"' FROM t"""),
    ],
)
def test_row_locks_and_collations_are_dropped_where_there_is_one_writer_and_one_order_of_text(
    before: str, after: str
) -> None:
    assert sql.for_sqlite(before) == after  # pyright: ignore[reportArgumentType]


def test_a_batch_joins_the_with_clause_of_its_statement() -> None:
    columns = (("id", "text"), ("n", "bigint"))
    head = "batch AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS t(id, n))"
    assert sql.batch_from_arrays("SELECT 1", columns) == f"WITH {head} SELECT 1"
    assert sql.batch_from_arrays("WITH a AS (SELECT 2) SELECT 1", columns) == f"WITH {head}, a AS (SELECT 2) SELECT 1"
    assert sql.batch_from_row("with recursive a AS (SELECT 2) SELECT 1", ("id", "n")) == (
        "WITH recursive batch(id, n) AS (VALUES (?, ?)), a AS (SELECT 2) SELECT 1"
    )


def test_a_batch_takes_no_column_that_is_more_than_a_name() -> None:
    with pytest.raises(ValueError, match="cannot name a column"):
        sql.batch_from_row("SELECT 1", ("id) AS (SELECT 1",))


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(TypeError, match=":b"):
        sql.values(("a", "b"), {"a": 1})
