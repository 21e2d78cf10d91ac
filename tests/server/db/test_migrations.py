"""One set of migrations makes the same tables on both databases."""

import asyncio
import re
import sqlite3
from pathlib import Path

import psycopg
import pytest

from terracrew.errors import Incompatible
from terracrew.server.db import Database, Tx, open_database
from terracrew.server.db.migrate import Migration, known, migrate, parse, split
from tests.machine.postgres_server import PostgresServer

FUTURE = known()[-1].number + 1


@pytest.mark.postgres
async def test_both_databases_have_the_same_tables_columns_and_indexes(tmp_path: Path, postgres_url: str) -> None:
    await (await open_database(f"{tmp_path}/a.db")).close()
    with sqlite3.connect(f"{tmp_path}/a.db") as sqlite:
        columns = sqlite.execute(
            """SELECT t.name, c.name, lower(c.type), c."notnull" OR c.pk > 0
               FROM sqlite_schema t, pragma_table_info(t.name) c
               WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'"""
        ).fetchall()
        indexes = sqlite.execute(
            "SELECT tbl_name, name FROM sqlite_schema WHERE type = 'index' AND sql <> ''"
        ).fetchall()
    with psycopg.connect(postgres_url) as postgres:
        their_columns = postgres.execute(
            """SELECT table_name, column_name, data_type, CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END
               FROM information_schema.columns WHERE table_schema = 'public'"""
        ).fetchall()
        their_indexes = postgres.execute(
            """SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'public'
               AND indexname NOT IN (SELECT conname FROM pg_constraint)"""
        ).fetchall()
    assert sorted(columns) == sorted(their_columns)
    assert sorted(indexes) == sorted(their_indexes)
    assert {"migrations", "leases"} < {table for table, *_ in columns}


async def test_opening_again_applies_nothing_again(database_url: str) -> None:
    for _ in range(2):
        db = await open_database(database_url)

        async def numbers(tx: Tx) -> list[int]:
            return [row["number"] for row in await tx.all("SELECT number FROM migrations ORDER BY number")]

        assert await db.read(numbers) == [migration.number for migration in known()]
        await db.close()


async def test_a_database_of_a_newer_version_is_refused_and_says_what_to_do(database_url: str) -> None:
    db = await open_database(database_url)
    await migrate(db.write, [*known(), Migration(FUTURE, "of_tomorrow", ("CREATE TABLE tomorrow (id text)",))])
    await db.close()
    with pytest.raises(Incompatible, match=r"install a newer Terracrew here.* is a backup of the database") as caught:
        await open_database(database_url)
    assert caught.value.details == {"database": FUTURE, "program": FUTURE - 1}


async def test_a_database_of_a_newer_version_is_used_if_every_newer_migration_lets_older_servers_continue(
    database_url: str,
) -> None:
    db = await open_database(database_url)
    additions = [
        Migration(FUTURE, "of_tomorrow", ("ALTER TABLE groups ADD COLUMN mood text",), lets_older_continue=True),
        Migration(FUTURE + 1, "of_the_day_after", ("CREATE TABLE later (id text)",), lets_older_continue=True),
    ]
    assert await migrate(db.write, [*known(), *additions]) == additions
    await db.close()
    await (await open_database(database_url)).close()
    db = await open_database(database_url)
    await migrate(db.write, [*known(), *additions, Migration(FUTURE + 2, "of_the_week_after", ("DROP TABLE later",))])
    await db.close()
    with pytest.raises(Incompatible) as caught:
        await open_database(database_url)
    assert caught.value.details == {"database": FUTURE + 2, "program": FUTURE - 1}


ADDITION = re.compile(
    r"CREATE TABLE |CREATE INDEX |ALTER TABLE \w+ ADD COLUMN (?!.*\bUNIQUE\b|.*\bCHECK\b)(?!.*NOT NULL(?!.*DEFAULT))",
    re.DOTALL,
)
"""What cannot disturb a server that does not know it: it neither writes nor reads the new table or column."""


@pytest.mark.parametrize(
    ("statement", "is_addition"),
    [
        ("CREATE TABLE a (id text NOT NULL)", True),
        ("CREATE INDEX a_b ON a (b)", True),
        ("ALTER TABLE a ADD COLUMN b text", True),
        ("ALTER TABLE a ADD COLUMN b boolean NOT NULL DEFAULT false", True),
        ("ALTER TABLE a ADD COLUMN b text NOT NULL", False),
        ("ALTER TABLE a ADD COLUMN b text CHECK (b <> '')", False),
        ("CREATE UNIQUE INDEX a_b ON a (b)", False),
        ("ALTER TABLE a DROP COLUMN b", False),
        ("UPDATE a SET b = 1", False),
        ("INSERT INTO a VALUES (1)", False),
    ],
)
def test_only_additions_let_older_servers_continue(statement: str, is_addition: bool) -> None:
    assert (ADDITION.match(statement) is not None) is is_addition


def test_a_migration_that_lets_older_servers_continue_only_adds() -> None:
    marked = parse("0999", "more", "-- More.\n-- older servers: continue\nSELECT 1;\n")
    assert marked == Migration(999, "more", ("SELECT 1",), lets_older_continue=True)
    wrong = [
        (each.name, statement)
        for each in known()
        if each.lets_older_continue
        for statement in each.statements
        if not ADDITION.match(statement)
    ]
    assert wrong == []


async def test_a_migration_that_fails_leaves_nothing_behind(database: Database) -> None:
    broken = Migration(FUTURE, "broken", ("CREATE TABLE half (id text)", "CREATE TABLE half (id text)"))
    with pytest.raises(Exception, match="already exists"):
        await migrate(database.write, [*known(), broken])
    mended = Migration(FUTURE, "mended", ("CREATE TABLE half (id text)",))
    assert await migrate(database.write, [*known(), mended]) == [mended]


@pytest.mark.postgres
async def test_servers_that_start_at_once_migrate_once(postgres_server: PostgresServer) -> None:
    with postgres_server.unmigrated_database() as url:
        databases = await asyncio.gather(*(open_database(url) for _ in range(5)))
        await asyncio.gather(*(db.close() for db in databases))
        with psycopg.connect(url) as postgres:
            assert postgres.execute("SELECT count(*) FROM migrations").fetchone() == (len(known()),)


def test_a_script_is_split_at_semicolons_that_end_a_line() -> None:
    script = "-- a comment;\nCREATE TABLE a (\n  id text -- why; not\n);\n\nINSERT INTO a VALUES ('x;y');  \n\n"
    assert split(script) == ("CREATE TABLE a (\n  id text -- why; not\n)", "INSERT INTO a VALUES ('x;y')")


def test_numbers_are_consecutive() -> None:
    assert [migration.number for migration in known()] == list(range(1, len(known()) + 1))
