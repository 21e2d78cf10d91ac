"""One SQL text for two databases: `:named` parameters, row locks and collations, turned into what each of them takes."""

import re
from collections.abc import Mapping
from functools import cache
from typing import LiteralString, NamedTuple, cast

_OPAQUE = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|::"""
_NAMED = re.compile(rf"{_OPAQUE}|(?P<name>:[A-Za-z_]\w*)", re.DOTALL)
_LOCK = r"\bFOR\s+(?:(?:NO\s+)?KEY\s+)?(?:UPDATE|SHARE)\b(?:\s+OF\s+\w+(?:\s*,\s*\w+)*)?(?:\s+SKIP\s+LOCKED|\s+NOWAIT)?"
_POSTGRES_ONLY = re.compile(
    rf"""{_OPAQUE}|(?P<clause>{_LOCK}|\bCOLLATE\s+"C")""",
    re.DOTALL | re.IGNORECASE,
)
_WRITE = re.compile(rf"{_OPAQUE}|(?P<write>\b(?:INSERT|UPDATE|DELETE)\b)", re.DOTALL | re.IGNORECASE)
_UPDATE_FROM_BATCH = re.compile(r"\s*UPDATE\b.*\bFROM\s+batch\b", re.DOTALL | re.IGNORECASE)
_WITH = re.compile(r"\s*WITH\s+(RECURSIVE\s+)?", re.IGNORECASE)
_RETURNING = re.compile(rf"{_OPAQUE}|(?P<returning>\bRETURNING\b)", re.DOTALL | re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")


class Numbered(NamedTuple):
    text: LiteralString
    names: tuple[str, ...]


@cache
def numbered(sql: LiteralString) -> Numbered:
    """Return a statement for PostgreSQL with the parameters `$1 … $n`, and the names of these parameters."""
    places: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name is None else f"${places.setdefault(name[1:], len(places) + 1)}"

    return Numbered(_literal(_NAMED.sub(replace, sql)), tuple(places))


@cache
def for_sqlite(sql: LiteralString) -> LiteralString:
    """Return a statement without the clauses that only PostgreSQL needs.

    SQLite has no row locks, because it has only one writer. It compares text byte by byte, as PostgreSQL does with `COLLATE "C"`.
    """
    return _literal(_POSTGRES_ONLY.sub(lambda match: "" if match["clause"] else match[0], sql))


@cache
def batch_from_arrays(sql: LiteralString, columns: tuple[tuple[str, LiteralString], ...]) -> LiteralString:
    """Return the relation `batch` for PostgreSQL, made of one array for each column."""
    names = ", ".join(_plain(name) for name, _ in columns)
    arrays = ", ".join(f"${place}::{kind}[]" for place, (_, kind) in enumerate(columns, start=1))
    return _prepend(f"batch AS (SELECT * FROM unnest({arrays}) AS t({names}))", sql)


@cache
def batch_from_row(sql: LiteralString, names: tuple[str, ...]) -> LiteralString:
    """Return the relation `batch` for SQLite, made of one row."""
    row = ", ".join("?" * len(names))
    return _prepend(f"batch({', '.join(map(_plain, names))}) AS (VALUES ({row}))", for_sqlite(sql))


@cache
def batch_from_json(sql: LiteralString, names: tuple[str, ...]) -> LiteralString:
    """Return the relation `batch` for SQLite, made of a JSON array of rows, so that one statement does the work for all of them."""
    columns = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(names)))
    return _prepend(f"batch({', '.join(map(_plain, names))}) AS (SELECT {columns} FROM json_each(?))", for_sqlite(sql))


@cache
def is_read(sql: LiteralString) -> bool:
    """Return whether a statement changes nothing."""
    return not any(match["write"] for match in _WRITE.finditer(sql))


@cache
def is_update_of_batch(sql: LiteralString) -> bool:
    """Return whether a statement changes the rows that it joins to `batch`, and returns none of them."""
    return _UPDATE_FROM_BATCH.match(sql) is not None and not any(
        match["returning"] for match in _RETURNING.finditer(sql)
    )


def values(names: tuple[str, ...], params: Mapping[str, object]) -> list[object]:
    """Return the values in the order of the names."""
    try:
        return [params[name] for name in names]
    except KeyError as missing:
        raise TypeError(f"the statement takes :{missing.args[0]}, which was not given") from None


def _prepend(relation: str, sql: str) -> LiteralString:
    begins_with = _WITH.match(sql)
    if begins_with is None:
        return _literal(f"WITH {relation} {sql}")
    return _literal(f"WITH {begins_with[1] or ''}{relation}, {sql[begins_with.end() :]}")


def _plain(name: str) -> str:
    if not _PLAIN_NAME.match(name):
        raise ValueError(f"{name!r} cannot name a column of a batch")
    return name


def _literal(text: str) -> LiteralString:
    # Made of literals only: the texts come from our sources and the names pass _plain().
    return cast("LiteralString", text)
