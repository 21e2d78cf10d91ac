"""Inserts one row into a table, for builders that make what the product makes in several steps."""

from typing import LiteralString, cast

from terracrew.server.db.seam import Param, Tx


async def insert(tx: Tx, table: str, **values: Param) -> None:
    """Insert a row; every other column has its default value."""
    columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    await tx.run(cast("LiteralString", f"INSERT INTO {table} ({columns}) VALUES ({places})"), **values)
