"""Opens a whole server without a socket, and clients that use its API as one person each."""

import base64
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from terracrew.server.app import attach, build, close, make_unattached_app
from terracrew.server.context import Server
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import App
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import sessions, store
from terracrew.server.maintenance.local_token import first_start
from terracrew.server.metrics import process as metrics
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups.service import ensure_organization
from terracrew.settings.server import ServerSettings
from tests.builders.clock import ShiftedClock

_idle_apps: list[App] = []

KEY = base64.b64encode(b"k" * 32).decode()
on_one = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""For what is refused before any database is asked: one of the two is enough."""


class Person(httpx.AsyncClient):
    """Speaks the API as one user."""

    principal: Principal

    async def made(self, path: str, body: Any, **params: Any) -> Any:
        """Create something that nothing stands in the way of."""
        answer = await self.post(path, json=body, params=params)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def listed(self, path: str, **params: Any) -> list[Any]:
        """All items of a list, page by page."""
        found: list[Any] = []
        after: dict[str, str] | None = {}
        while after is not None:
            page = (await self.get(path, params=params | after)).json()
            found += page["items"]
            after = {"after": page["next"]} if page["next"] else None
        return found

    async def refused(self, method: str, path: str, status: int, **request: Any) -> str:
        """Ask for what must be refused, as a problem; returns its words."""
        answer = await self.request(method, path, **request)
        assert answer.status_code == status, answer.text
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == status
        return str(answer.json()["detail"])


@dataclass
class Application:
    server: Server
    app: App
    admin: Person

    async def person(self, name: str, role: str | None = None, path: str = "", organization: str = "default") -> Person:
        """A user of an organization, with a role at a group."""

        async def work(tx: Tx) -> Principal:
            place = await ensure_organization(tx, organization)
            user = await store.insert_user(tx, place.id, name, is_system_admin=False)
            if role is not None:
                await role_store.bind_role(tx, place.id, "user", user.id, role, "group", path, "test")
            return sessions.person(user, None)

        return await self.as_user(await self.server.db.write(work))

    async def as_user(self, who: Principal) -> Person:
        _, token = await identity.create_token(self.server.db, who, "test", None)
        person = self.stranger()
        person.headers["Authorization"] = f"Bearer {token.text}"
        person.principal = who
        return person

    def stranger(self, address: str = "127.0.0.1") -> Person:
        """Somebody without a token."""
        return Person(transport=self.transport(address), base_url="http://127.0.0.1:7400")

    def transport(self, address: str = "127.0.0.1") -> httpx.ASGITransport:
        """The way of the requests of a client at this address."""
        return httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(address, 12345))

    async def scalar(self, sql: Any, **params: Any) -> Any:
        row = await self.server.db.read(lambda tx: tx.one(sql, **params))
        return None if row is None else next(iter(row.values()))


@contextmanager
def attached_app(server: Server) -> Generator[App]:
    """An application that answers for this server: one of a server that was closed, because making one takes longer than most tests.

    An application that a test has failed with is not used again.
    """
    app = _idle_apps.pop() if _idle_apps else make_unattached_app()
    yield attach(app, server)
    _idle_apps.append(app)


def settings_for(folder: Path, database_url: str = "", **settings: Any) -> ServerSettings:
    """Return the settings of a server with this data directory and database; an SQLite file has its key beside it."""
    if database_url and not database_url.startswith("sqlite") and "master_key_file" not in settings:
        settings["master_key"] = KEY
    return ServerSettings.model_validate({"data_directory": folder, "database_url": database_url, **settings})


@asynccontextmanager
async def open_application(
    database_url: str, folder: Path, *, clock: ShiftedClock | None = None, **settings: Any
) -> AsyncGenerator[Application]:
    server = await build(settings_for(folder, database_url, **settings), clock)
    try:
        with attached_app(server) as app:
            application = Application(server, app, None)  # pyright: ignore[reportArgumentType]
            await first_start(server.db, "default")
            user = await server.db.read(lambda tx: store.user(tx, "admin"))
            application.admin = await application.as_user(sessions.person(user, None))
            yield application
    finally:
        await close(server)


def metrics_headers(server: Server) -> dict[str, str]:
    """The headers of a scrape."""
    token = (server.settings.directory / metrics.FILE_NAME).read_text().strip()
    return {"Authorization": f"Bearer {token}"}
