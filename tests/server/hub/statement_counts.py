"""Records the statements that a database runs."""

from collections.abc import Callable
from typing import Any, LiteralString

import pytest

from terracrew.server.db.seam import Database, Param, Row, Tx


class RecordingTx:
    """Passes everything on to a transaction, and keeps the statements with their parameters."""

    value, each_id = Tx.value, Tx.each_id

    def __init__(self, tx: Tx, said: list[tuple[LiteralString, dict[str, Param]]]) -> None:
        self._tx, self._said = tx, said

    async def all(self, sql: LiteralString, /, **params: Param) -> list[Row]:
        self._said.append((sql, params))
        return await self._tx.all(sql, **params)

    async def one(self, sql: LiteralString, /, **params: Param) -> Row | None:
        self._said.append((sql, params))
        return await self._tx.one(sql, **params)

    async def run(self, sql: LiteralString, /, **params: Param) -> int:
        self._said.append((sql, params))
        return await self._tx.run(sql, **params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


class NotingTx:
    """Passes everything on to a transaction, and notes the text of each statement, also of those for batches."""

    value, each_id = Tx.value, Tx.each_id

    def __init__(self, tx: Tx, texts: list[str]) -> None:
        self._tx, self._texts = tx, texts

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tx, name)
        if name not in ("all", "one", "run", "each"):
            return found

        def run(sql: str, *rest: Any, **params: Any) -> Any:
            if name != "each" or rest[1]:  # a batch without rows needs no statement
                self._texts.append(sql)
            return found(sql, *rest, **params)

        return run


def on_each_unit(db: Database, monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Tx], Any]) -> None:
    """Have every unit of work use a wrapped transaction from now on."""

    def wrapped(real: Any) -> Any:
        def run(work: Any) -> Any:
            def work_wrapped(tx: Tx) -> Any:
                return work(wrap(tx))

            return real(work_wrapped)

        return run

    monkeypatch.setattr(db, "read", wrapped(db.read))
    monkeypatch.setattr(db, "write", wrapped(db.write))
