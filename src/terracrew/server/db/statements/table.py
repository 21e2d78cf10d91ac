"""A table and the struct of its rows: the texts of statements that list columns are derived from the struct's fields."""

from collections.abc import Collection, Iterable
from typing import Generic, LiteralString, TypeVar, cast

import msgspec
from msgspec import inspect

from terracrew.server.db.seam import Columns, Param, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_values

S = TypeVar("S", bound=msgspec.Struct)
_TYPES: tuple[tuple[type[inspect.Type], LiteralString], ...] = (
    (inspect.BoolType, "boolean"),
    (inspect.IntType, "bigint"),
    (inspect.FloatType, "double precision"),
    (inspect.DateTimeType, "double precision"),
    (inspect.BytesType, "bytea"),
)


class Table(Generic[S]):
    """Derive column lists from a struct whose fields are columns of the table; the table may have more columns.

    A test compares every instance with the migrated tables of both databases.
    """

    def __init__(self, name: LiteralString, kind: type[S], without: Collection[str] = ()) -> None:
        """`without` names the fields of the struct that are not columns of the table."""
        self.name: LiteralString = name
        self.kind = kind
        fields = {field.name: field.type for field in msgspec.structs.fields(kind) if field.name not in without}
        self.fields = cast("tuple[LiteralString, ...]", tuple(fields))
        self.columns: LiteralString = self.prefixed("")
        """The select list of all fields: `jobs.id, jobs.number`."""
        self.types: Columns = {name: _column_type(of) for name, of in fields.items()}
        """The type of each field's column, for `Tx.each`."""
        KNOWN_TABLES.append(cast("Table[msgspec.Struct]", self))

    def columns_without(self, *fields: str) -> LiteralString:
        """Make a select list of the other fields, for lists that do not show these."""
        return _joined(f"{self.name}.{field}" for field in self.fields if field not in fields)

    def fields_of(self, kind: type[msgspec.Struct]) -> tuple[LiteralString, ...]:
        """Return the fields of the table that another struct has, too, such as the settings that people may change."""
        return tuple(field for field in self.fields if field in kind.__struct_fields__)

    def prefixed(self, prefix: LiteralString) -> LiteralString:
        """Make a select list that can stand beside another table's: `attempts.number AS a_number`."""
        return _joined(f"{self.name}.{field}" + (f" AS {prefix}{field}" if prefix else "") for field in self.fields)

    async def one(self, tx: Tx, source: LiteralString, /, **params: Param) -> S | None:
        """Read a row; `source` follows the select list: `FROM jobs WHERE id = :id`. None if there is no row."""
        row = await tx.one(f"SELECT {self.columns} {source}", **params)
        return None if row is None else row_to(self.kind, row)

    async def all(self, tx: Tx, source: LiteralString, /, **params: Param) -> list[S]:
        """Read rows; `source` follows the select list."""
        return rows_to(self.kind, await tx.all(f"SELECT {self.columns} {source}", **params))

    async def find(self, tx: Tx, /, **key: Param) -> S | None:
        """Read the row whose columns have these values; None if there is none."""
        return await self.one(tx, self._of_key(tuple(key)), **key)

    async def hold(self, tx: Tx, /, **key: Param) -> S | None:
        """Read the row whose columns have these values, and lock it until the transaction ends."""
        return await self.one(tx, self._of_key(tuple(key)) + " FOR UPDATE", **key)

    def _of_key(self, names: tuple[str, ...]) -> LiteralString:
        conditions = " AND ".join(f"{name} = :{name}" for name in names)
        return cast("LiteralString", f"FROM {self.name} WHERE {conditions}")

    def insert(self, *others: LiteralString) -> LiteralString:
        """Make `INSERT INTO … VALUES …` of all fields and of other columns, each from the parameter of its name."""
        names = (*self.fields, *others)
        return f"INSERT INTO {self.name} ({_joined(names)}) VALUES ({_joined(f':{name}' for name in names)})"

    def insert_batch(self, *fields: LiteralString) -> LiteralString:
        """Make `INSERT INTO … SELECT … FROM batch` of these columns."""
        names = _joined(fields)
        return f"INSERT INTO {self.name} ({names}) SELECT {names} FROM batch WHERE true"

    def types_of(self, *fields: LiteralString, **others: LiteralString) -> Columns:
        """Return the types of these fields, and after them those of other columns of a batch."""
        return {**{name: self.types[name] for name in fields}, **others}


KNOWN_TABLES: list[Table[msgspec.Struct]] = []
"""All instances of `Table` in the modules that have been imported."""


def assignments(*fields: LiteralString) -> LiteralString:
    """Make the list after SET in which each column takes the parameter of its name: `status = :status`."""
    return _joined(f"{field} = :{field}" for field in fields)


def batch_assignments(*fields: LiteralString) -> LiteralString:
    """Make the list after SET in which each column takes the value of its name in `batch`: `status = batch.status`."""
    return _joined(f"{field} = batch.{field}" for field in fields)


def excluded_assignments(*fields: LiteralString) -> LiteralString:
    """Make the list after ON CONFLICT … DO UPDATE SET in which each column takes the new value: `status = excluded.status`."""
    return _joined(f"{field} = excluded.{field}" for field in fields)


def values(struct: msgspec.Struct, *fields: str) -> list[Param]:
    """Return the values of these fields (of all, if none is named) in their order, as a row of a batch."""
    return to_values(struct, *(fields or struct.__struct_fields__))


def _joined(parts: Iterable[str]) -> LiteralString:
    # The names of fields stand in our sources, so the text is made of literals only.
    return cast("LiteralString", ", ".join(parts))


def _column_type(kind: object) -> LiteralString:
    found = inspect.type_info(kind)
    members = found.types if isinstance(found, inspect.UnionType) else (found,)
    for member in members:
        plain = member.type if isinstance(member, inspect.Metadata) else member
        for of, name in _TYPES:
            if isinstance(plain, of):
                return name
    return "text"
