"""Opens a small real server with the routes of identity, and makes people and machines for it."""

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import httpx
from litestar import Request, delete, get, post
from litestar.handlers import BaseRouteHandler

from terracrew import ids
from terracrew.api.access import Role
from terracrew.protocol.messages import AttemptRef
from terracrew.server.api import routes
from terracrew.server.api.context import AccessCall, AccessContext
from terracrew.server.db import Database, Tx
from terracrew.server.http.authentication import AuthenticationMiddleware
from terracrew.server.http.problem import HANDLERS
from terracrew.server.http.request import App
from terracrew.server.identity.access import role_store
from terracrew.server.identity.access import service as access
from terracrew.server.identity.context import Identity, open_identity
from terracrew.server.identity.people import service, sessions, store
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.secrets import credentials
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import service as groups
from terracrew.settings.server import ServerSettings
from tests.builders.deliveries import RUNNING, delivery
from tests.builders.job_rows import JobRows, insert

URL = "http://crew.test"


@dataclass(frozen=True)
class Container:
    """What the handlers of identity take from the server."""

    settings: ServerSettings
    db: Database
    keys: Keyring
    identity: Identity


@dataclass(frozen=True)
class IdentityServer:
    container: Container
    app: App
    rows: JobRows

    @property
    def organization_id(self) -> str:
        return self.rows.organization

    @property
    def db(self) -> Database:
        return self.container.db

    @property
    def identity(self) -> Identity:
        return self.container.identity

    def client(self, token: str | None = None, **options: Any) -> httpx.AsyncClient:
        """A program (with a token) or a browser (without); `address` is where it comes from."""
        transport = httpx.ASGITransport(self.app, client=(options.pop("address", "127.0.0.1"), 4711))
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        headers = options.pop("headers", {}) | bearer
        return httpx.AsyncClient(transport=transport, base_url=URL, headers=headers, **options)

    async def user(
        self, name: str, role: Role | None = None, path: str = "", organization_id: str | None = None, **flags: bool
    ) -> Principal:
        home = organization_id or self.organization_id

        async def work(tx: Tx) -> Principal:
            user = await store.insert_user(tx, home, name, is_system_admin=flags.get("is_system_admin", False))
            if role is not None:
                await role_store.bind_role(tx, home, "user", user.id, role, "group", path, SYSTEM.id)
            return sessions.person(user, None)

        return await self.db.write(work)

    async def token(self, who: Principal) -> str:
        _, secret = await service.create_token(self.db, who, ids.new("tok"), None)
        return secret.text

    async def local_token(self, who: Principal) -> str:
        """A token that counts like a login, as the one that the server leaves on its own machine."""
        user = await self.db.read(lambda tx: store.user(tx, who.id))
        return (await service.create_local_token(self.db, user, ids.new("tok"), 86400)).text

    async def login(self, who: Principal) -> tuple[str, str]:
        """The session's cookie and its CSRF token."""

        async def work(tx: Tx) -> str:
            return (await sessions.start(tx, await store.user(tx, who.id))).token

        cookie = await self.db.write(work)
        return cookie, sessions.csrf_token(cookie, who.organization_id)

    async def exchange(self, client_id: str, secret: str, next_sha256: str = "", **options: Any) -> httpx.Response:
        """Ask for an access token, as a program does."""
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        following = {"next_secret_sha256": next_sha256} if next_sha256 else {}
        async with self.client(**options) as client:
            return await client.post("/connect/token", data=form | following)

    async def organization(self, name: str) -> str:
        return (await self.db.write(lambda tx: groups.ensure_organization(tx, name))).id

    async def group(self, path: str) -> str:
        return await self.rows.group(path)

    async def account(self, name: str = "ci", group: str = "") -> tuple[str, str, str]:
        """Id, secret's id, and secret of a new service account."""
        owner = await self.user(f"maker-of-{name}", Role.OWNER)
        account = await access.create_account(self.db, owner, name, group)
        _, stored, secret = await access.create_secret(self.db, owner, account.id, None)
        return account.id, stored.id, secret.text

    async def runner(self, organization_id: str | None, name: str = "crew") -> tuple[str, str]:
        """Worker id and worker token of a new runner."""
        new, secret = ids.new("rnr"), credentials.new("tcw")

        async def work(tx: Tx) -> None:
            root = await tx.one("SELECT id FROM groups WHERE organization_id = :id AND path = ''", id=organization_id)
            place = {"organization_id": organization_id, "group_id": root["id"] if root else None}
            names = {"id": new, "name": name, "path": name, "type": "self-hosted", "created_at": 0.0}
            await insert(tx, "runners", worker_token_sha256=secret.sha256, **place, **names)

        await self.db.write(work)
        return new, secret.text

    async def attempt(self, module: str = "net") -> tuple[str, str, str]:
        """Job id, hub credential and API credential of a first attempt that runs."""
        job = await self.rows.job(await self.rows.module(module))
        granted = await (await self.rows.runner()).has(job)
        await self.rows.take(delivery(AttemptRef(job, 1), 1, RUNNING))
        return job, granted.credentials.hub, granted.credentials.api

    async def run(self, sql: Any, **params: Any) -> None:
        await self.rows.run(sql, **params)


@get("/anybody", public=True)
async def anybody(request: AccessCall) -> str:
    return request.user.name if request.user else "nobody"


@post("/anybody", public=True)
async def anybody_posts(request: AccessCall) -> str:
    return request.user.name if request.user else "nobody"


@post("/form")
async def form(request: Request[Any, Any, Any]) -> dict[str, str]:
    """A page's form: the door has read the body before, and it is still there."""
    return {name: value for name, value in (await request.form()).multi_items() if name != "_csrf"}


@delete("/thing")
async def thing() -> None: ...


EXTRA: list[BaseRouteHandler] = [anybody, anybody_posts, form, thing]


@cache
def app() -> App:
    """One application for all tests, which run one after the other; each puts its own container in."""
    return App(
        [*routes.ACCESS, *EXTRA],
        middleware=[AuthenticationMiddleware()],
        exception_handlers=HANDLERS,
        request_class=AccessCall,
        openapi_config=None,
    )


async def build(database: Database, private_issuers: tuple[str, ...] = ()) -> IdentityServer:
    keys = Keyring([b"k" * 32])
    identity = await open_identity(database, keys, URL, private_issuers)
    container = Container(ServerSettings(public_url=URL), database, keys, identity)
    app().state.identity = container.identity
    app().state.api = SimpleNamespace(access=AccessContext(database, container.identity))
    app().state.data_directory = container.settings.directory
    organization = await database.write(lambda tx: groups.ensure_organization(tx, "default"))
    return IdentityServer(container, app(), await JobRows.of_organization(database, organization.id))
