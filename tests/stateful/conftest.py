"""What the stateful tests share: no code waits by the wall clock, and each example has its own database."""

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from terracrew.server.db import availability
from terracrew.server.hub.runners import ended_attempts, takeover
from tests.machine.sqlite_template import copy_template, memory
from tests.stateful.machine import Machine


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the clock of the machine under test, and write no log."""
    monkeypatch.setattr(availability, "RETRY_PAUSES_SECONDS", (0.0,) * 5)
    monkeypatch.setattr(ended_attempts, "LEAVING_SECONDS", 0.1)
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.0)
    logging.getLogger("terracrew").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("terracrew").setLevel(logging.NOTSET)


@pytest.fixture
def on_sqlite(impatient: None) -> type[Machine]:
    @contextmanager
    def copy() -> Generator[str]:
        with TemporaryDirectory(prefix="stateful-", dir=memory()) as folder:
            yield f"sqlite:///{copy_template(Path(folder) / 'terracrew.db')}"

    class OnSqlite(Machine):
        fresh = staticmethod(copy)

    return OnSqlite
