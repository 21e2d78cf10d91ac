"""Finds the SQL in the sources of the server: which file reads and changes which tables."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import terracrew.server

SERVER = Path(terracrew.server.__file__).parent
MIGRATIONS = SERVER / "db" / "migrations"
_CHANGE = re.compile(
    r"\b(INSERT(?: OR REPLACE)? INTO|UPDATE|DELETE FROM)\s+([a-z_]+)\b(?=(?:\s+SET\s+(.*))?)", re.DOTALL
)
"""The columns are looked at and not consumed, so that a further change in the same text is found, too."""
_ASSIGNED = re.compile(r"(?:^|,)\s*([a-z_0-9]+)\s*=")
_READ = re.compile(r"(?:\bFROM|\bJOIN)\s+([a-z_]+(?:(?:\s+AS\s+[a-z_]+)?\s*,\s*[a-z_]+)*)\b")
"""One table, or several with commas between them."""
_OPENING = re.compile(r"\s*\(?\s*([a-z_]+)(?:\s+AS\s+[a-z_]+)?\s+(?:CROSS |LEFT )?JOIN\b")
"""A fragment that stands after FROM begins with its first table."""


class Statement(NamedTuple):
    file: str
    text: str
    """Constants of the same file are inserted into it; `{}` stands for everything else."""

    @property
    def reads(self) -> frozenset[str]:
        named = {each.split()[0] for found in _READ.findall(self.text) for each in str(found).split(",")}
        if opening := _OPENING.match(self.text):
            named.add(opening[1])
        return tables() & named

    @property
    def mentions(self) -> frozenset[str]:
        """The tables that it reads or changes, or of which it names a column: `runners.id`."""
        return (
            frozenset(re.findall(r"\b([a-z_]+)\.", self.text)) & tables()
            | self.reads
            | {change.table for change in self.changes}
        )

    @property
    def changes(self) -> "list[Change]":
        found = _CHANGE.findall(self.text)
        return [Change(self.file, verb, table, _columns(set_)) for verb, table, set_ in found if table in tables()]


class Change(NamedTuple):
    file: str
    verb: str
    table: str
    columns: frozenset[str]


@cache
def tables() -> frozenset[str]:
    scripts = "".join(file.read_text() for file in MIGRATIONS.glob("*.sql"))
    renamed = re.findall(
        r"ALTER TABLE (\w+) RENAME TO \w+", scripts
    )  # a table that was made anew takes the name of the old one
    return frozenset(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \(", scripts)) - {"migrations", *renamed}


def _modules(source: Path, *words: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules below a folder that contain one of these words, each with its path."""
    for file in sorted(source.rglob("*.py")):
        text = file.read_text()
        if any(word in text for word in words):
            yield str(file.relative_to(source)), ast.parse(text)


@cache
def statements(source: Path = SERVER) -> list[Statement]:
    """Return the texts in which a table is read or changed."""
    found = [
        Statement(file, text)
        for file, tree in _modules(source, "FROM", "JOIN", "INTO", "UPDATE")
        for text in texts(tree)
    ]
    derived = [Statement(file, f"FROM {table}") for file, table in _calls_of_tables(source, "find", "hold")]
    return [*(each for each in found if each.reads or each.changes), *derived]


def texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that are not docstrings, as whole as they are put together in it.

    A constant that is only a part of other texts of the module is not returned by itself.
    """
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants: dict[str, ast.expr] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if targets and isinstance(node, ast.Assign | ast.AnnAssign) and node.value and _is_text(node.value, constants):
            constants |= {_last_name(target): node.value for target in targets}
    whole = [node for node in _texts_below(tree, constants) if node not in docstrings]
    parts = {name.id for node in whole for name in ast.walk(node) if isinstance(name, ast.Name)}
    for node in whole:
        if not any(node is constants.get(part) for part in parts):
            yield _text(node, constants)


def _texts_below(node: ast.AST, constants: Mapping[str, ast.expr]) -> Iterator[ast.expr]:
    """The largest expressions that are texts."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and _is_text(child, constants):
            yield child
        else:
            yield from _texts_below(child, constants)


def _is_text(node: ast.expr, constants: Mapping[str, ast.expr]) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        ends = (node.left, node.right)
        return any(_is_text(end, constants) or _last_name(end) in constants for end in ends)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _text(node: ast.expr, constants: Mapping[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(each, constants) for each in values)
        case ast.FormattedValue(value=value):
            return _text(value, constants)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, constants) + _text(right, constants)
        case ast.Name(id=name) if name in constants:
            return _text(constants[name], constants)
        case _:
            return "{}"


@cache
def derived_inserts(source: Path = SERVER) -> list[Change]:
    """Return where an INSERT is derived from the struct of a table: `JOBS.insert()`, also under another name."""
    calls = _calls_of_tables(source, "insert", "insert_batch")
    return [Change(file, "INSERT INTO", table, frozenset()) for file, table in calls]


def _calls_of_tables(source: Path, *methods: str) -> Iterator[tuple[str, str]]:
    """Yield the calls of these methods of described tables, each with its file and its table."""
    known = {each.constant: each.table for each in described_tables()}
    for file, tree in _modules(source, *(f".{method}" for method in methods)):
        names = known | _aliases(tree, known)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
                table = _described(node.func.value) or names.get(_last_name(node.func.value))
                if table is not None:
                    yield file, table


class DescribedTable(NamedTuple):
    file: str
    constant: str
    table: str


@cache
def described_tables(source: Path = SERVER) -> list[DescribedTable]:
    """Return the constants `JOBS = Table("jobs", Job)`."""
    return [
        DescribedTable(file, _last_name(node.targets[0]), table)
        for file, tree in _modules(source, "Table(")
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and (table := _described(node.value)) is not None
    ]


def _described(node: ast.expr) -> str | None:
    match node:
        case ast.Call(
            func=ast.Name(id="Table") | ast.Attribute(attr="Table"), args=[ast.Constant(value=str(table)), *_]
        ):
            return table
        case _:
            return None


def _aliases(tree: ast.Module, known: Mapping[str, str]) -> dict[str, str]:
    """Return other names of known constants: `from … import JOBS as ROWS`, and `rows = store.JOBS`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {each.asname: known[each.name] for each in node.names if each.asname and each.name in known}
        elif isinstance(node, ast.Assign) and (table := _described(node.value) or known.get(_last_name(node.value))):
            found |= {_last_name(target): table for target in node.targets}
    return found


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _columns(assigned: str) -> frozenset[str]:
    """The columns that a SET list assigns; what stands in parentheses is the value of one of them."""
    flat = assigned
    while (inner := re.sub(r"\([^()]*\)|\bCASE\b.*?\bEND\b", "_", flat, flags=re.DOTALL)) != flat:
        flat = inner
    return frozenset(_ASSIGNED.findall(re.split(r"\b(?:WHERE|FROM|RETURNING)\b", flat)[0]))
