"""The structs of rows and the migrated tables agree, so that no derived column list can drift from its table."""

import importlib
import pkgutil
import re
import sqlite3
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

import terracrew.server
from terracrew.server.db import open_database
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.table import KNOWN_TABLES, Table
from terracrew.server.jobs import attempt_store

_POSTGRES_COLUMNS = """SELECT column_name AS name, data_type AS type, is_nullable = 'YES' AS is_nullable
FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = :name"""
_SQLITE_COLUMNS = (
    """SELECT name, lower(type) AS type, "notnull" = 0 AND pk = 0 AS is_nullable FROM pragma_table_info(:name)"""
)


def known_tables() -> list[Table[msgspec.Struct]]:
    """All tables that any module of the server describes."""
    for module in pkgutil.walk_packages(terracrew.server.__path__, "terracrew.server."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return KNOWN_TABLES


async def columns_of(db: Database, table: str) -> dict[str, tuple[str, bool]]:
    """The type of each column, and whether it may be NULL."""
    statement = _SQLITE_COLUMNS if db.kind == "sqlite" else _POSTGRES_COLUMNS

    async def read(tx: Tx) -> dict[str, tuple[str, bool]]:
        return {row["name"]: (row["type"], bool(row["is_nullable"])) for row in await tx.all(statement, name=table)}

    return await db.read(read)


async def test_every_field_of_a_row_is_a_column_of_the_same_type_on_both_databases(database: Database) -> None:
    """The list of an attempt's columns was kept by hand once, and lacked `inputs_sha256`."""
    tables = known_tables()
    assert {"jobs", "attempts", "plans"} <= {table.name for table in tables}
    for table in tables:
        columns = await columns_of(database, table.name)
        for name in table.fields:
            assert name in columns, f"{table.kind.__name__}.{name} is not a column of {table.name}"
            kind, is_nullable = columns[name]
            assert kind == table.types[name], f"{table.name}.{name} is {kind}, its field is {table.types[name]}"
            assert not is_nullable or _accepts_none(table, name), (
                f"{table.name}.{name} may be NULL, but {table.kind.__name__}.{name} may not be None"
            )


WITHOUT_CHECK = {
    ("groups", "pull_request_apply"): "its migration has none, and SQLite cannot add one",
    ("modules", "command_line"): "a column with one would not let older servers continue",
    ("modules", "pull_request_apply"): "its migration has none, and SQLite cannot add one",
    ("pull_request_modules", "state"): "its migration has none, and SQLite cannot add one",
    ("states", "origin"): "the first migration has none, and SQLite cannot add one",
    ("steps", "name"): "a step that is added needs a new version of the protocol",
}


async def test_the_database_checks_every_column_that_has_a_fixed_set_of_values(tmp_path: Path) -> None:
    """So a new value needs a migration that changes the CHECK, which is not an addition: older servers, which cannot read the value,
    end before the first row has it."""
    await (await open_database(f"{tmp_path}/a.db")).close()
    with sqlite3.connect(f"{tmp_path}/a.db") as sqlite:
        made: dict[str, str] = dict(sqlite.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
    unchecked = {
        (table.name, name)
        for table in known_tables()
        for name, of in _types(table).items()
        if _is_fixed(of) and not re.search(rf"\b{name}\b[^,]* IN \(", made[table.name])
    }
    assert unchecked == set(WITHOUT_CHECK)


def _types(table: Table[msgspec.Struct]) -> dict[str, inspect.Type]:
    described = inspect.type_info(table.kind)
    assert isinstance(described, inspect.StructType)
    return {field.name: field.type for field in described.fields if field.name in table.fields}


def _is_fixed(of: inspect.Type) -> bool:
    if isinstance(of, inspect.UnionType):
        return any(map(_is_fixed, of.types))
    return isinstance(of, inspect.EnumType | inspect.LiteralType)


def _accepts_none(table: Table[msgspec.Struct], name: str) -> bool:
    fields = {field.name: field.type for field in msgspec.structs.fields(table.kind)}
    try:
        msgspec.convert(None, fields[name])
    except msgspec.ValidationError:
        return False
    return True


class Thing(msgspec.Struct, frozen=True):
    id: str
    size: int
    is_new: bool
    changed_at: float | None = None
    tags: list[str] = []


@pytest.fixture
def table() -> Table[Thing]:
    made = Table("things", Thing)
    KNOWN_TABLES.pop()
    return made


def test_a_table_lists_the_columns_of_its_struct(table: Table[Thing]) -> None:
    assert table.columns == "things.id, things.size, things.is_new, things.changed_at, things.tags"
    assert table.prefixed("t_").startswith("things.id AS t_id, ")
    assert table.types_of("size", "changed_at", was="text") == {
        "size": "bigint",
        "changed_at": "double precision",
        "was": "text",
    }
    assert table.types["tags"] == "text", "a list is stored as JSON"


def test_a_table_makes_the_statements_that_insert_its_rows(table: Table[Thing]) -> None:
    assert table.insert("secret") == (
        "INSERT INTO things (id, size, is_new, changed_at, tags, secret)"
        " VALUES (:id, :size, :is_new, :changed_at, :tags, :secret)"
    )
    assert table.insert_batch("id", "size") == "INSERT INTO things (id, size) SELECT id, size FROM batch WHERE true"


def test_a_step_is_saved_in_the_order_of_its_columns() -> None:
    assert attempt_store.SavedStep._fields == ("job_id", *attempt_store.STEPS.fields)
