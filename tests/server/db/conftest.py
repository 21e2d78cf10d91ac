"""Creates a table for the tests of the storage interface, which depend on no table of the product."""

from collections.abc import Callable

import pytest

from terracrew.server.db import Database, Row, Tx, Work


@pytest.fixture
async def db(database: Database) -> Database:
    async def work(tx: Tx) -> None:
        await tx.run(
            """CREATE TABLE things (
                   id text PRIMARY KEY, n bigint NOT NULL, label text,
                   parent text REFERENCES things (id),
                   CONSTRAINT things_positive CHECK (n >= 0),
                   CONSTRAINT things_label UNIQUE (label)
               )"""
        )

    await database.write(work)
    return database


@pytest.fixture
def add() -> Callable[..., Work[None]]:
    def adding(name: str, n: int = 0, label: str | None = None, parent: str | None = None) -> Work[None]:
        async def work(tx: Tx) -> None:
            await tx.run(
                "INSERT INTO things (id, n, label, parent) VALUES (:id, :n, :label, :parent)",
                id=name,
                n=n,
                label=label,
                parent=parent,
            )

        return work

    return adding


@pytest.fixture
def contents() -> Work[dict[str, int]]:
    async def work(tx: Tx) -> dict[str, int]:
        rows: list[Row] = await tx.all("SELECT id, n FROM things ORDER BY id")
        return {row["id"]: row["n"] for row in rows}

    return work
