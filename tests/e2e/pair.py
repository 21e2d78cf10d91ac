"""Two servers on one PostgreSQL, for what one of them decides and somebody on the other must hear."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.server.db import open_database
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import store
from terracrew.server.identity.people.sessions import person
from tests.e2e.system import System, running


@pytest.fixture
def servers(tmp_path: Path, postgres_url: str) -> Iterator[tuple[System, System]]:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with running(tmp_path / "one", postgres_url) as one, running(tmp_path / "other", postgres_url) as other:
        one.start_server(runner=False)
        other.env["TERRACREW_SERVER_OBJECT_STORE"] = (one.data / "objects").as_uri()
        other.start_server(runner=False)
        token = asyncio.run(administrators_token(postgres_url))
        for each in (one, other):
            (each.data / "admin.token").write_text(token)
        yield one, other


async def administrators_token(url: str) -> str:
    db = await open_database(url)
    try:
        admin = await db.read(lambda tx: store.user(tx, identity.ADMINISTRATOR))
        _, secret = await identity.create_token(db, person(admin, None), "for a test", None)
        return secret.text
    finally:
        await db.close()
