"""Counts the statements that a database runs."""

from collections.abc import Callable
from typing import Any

import pytest

from terracrew.server.db.seam import Database, Tx


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
