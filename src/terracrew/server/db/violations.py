"""Translates violated constraints to Terracrew's errors, with the same names on both databases."""

import re
import sqlite3

from terracrew.errors import Conflict, Invalid, TerracrewError

_KINDS: dict[str, tuple[type[TerracrewError], str]] = {
    "unique": (Conflict, "it exists already"),
    "foreign_key": (Conflict, "something that it belongs to, or that belongs to it, stands in the way"),
    "check": (Invalid, "the values do not go together"),
    "not_null": (Invalid, "a value is missing"),
}
_SQLSTATES = {"23505": "unique", "23503": "foreign_key", "23001": "foreign_key", "23514": "check", "23502": "not_null"}
_SQLITE = re.compile(r"(UNIQUE|FOREIGN KEY|CHECK|NOT NULL) constraint failed(?:: (.*))?", re.DOTALL)


def from_sqlstate(sqlstate: str, constraint: str, table: str, column: str) -> TerracrewError | None:
    """Translate the error of PostgreSQL. Returns None if it is not a known violation."""
    kind = _SQLSTATES.get(sqlstate)
    return None if kind is None else _error(kind, constraint or f"{table}.{column}")


def from_sqlite(error: sqlite3.IntegrityError, connection: sqlite3.Connection) -> TerracrewError | None:
    """Translate the error of SQLite. SQLite does not name a violated foreign key."""
    match = _SQLITE.match(str(error))
    if match is None:
        return None
    kind, subject = match[1].lower().replace(" ", "_"), match[2] or ""
    return _error(kind, _index_name(connection, subject) if kind == "unique" else subject)


def _error(kind: str, constraint: str) -> TerracrewError:
    cls, meaning = _KINDS[kind]
    return cls(f"{meaning} ({constraint or kind})", kind=kind, constraint=constraint)


def _index_name(connection: sqlite3.Connection, subject: str) -> str:
    """`jobs.module_id, jobs.number` → the name that PostgreSQL has for it, declared or made up."""
    if subject.startswith("index '"):
        return subject[len("index '") : -1]
    table = subject.partition(".")[0]
    columns = [part.partition(".")[2] for part in subject.split(", ")]
    indexes = connection.execute('SELECT name, origin FROM pragma_index_list(?) WHERE "unique"', [table]).fetchall()
    for name, origin in indexes:
        of = connection.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", [name]).fetchall()
        if [column for (column,) in of] == columns:
            return (
                name if origin == "c" else _declared(connection, table, columns) if origin == "u" else f"{table}_pkey"
            )
    return f"{table}_pkey"  # a rowid's own column has no index


def _declared(connection: sqlite3.Connection, table: str, columns: list[str]) -> str:
    """Return the name of a UNIQUE constraint inside a table, which SQLite keeps nowhere but in the table's text."""
    (text,) = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", [table]).fetchone()
    list_of_columns = r"\s*,\s*".join(columns)
    match = re.search(rf"CONSTRAINT\s+(\w+)\s+UNIQUE\s*\(\s*{list_of_columns}\s*\)", text, re.IGNORECASE)
    return match[1] if match else f"{table}_{'_'.join(columns)}_key"
