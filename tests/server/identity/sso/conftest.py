"""A server whose organization has a real provider of identities."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from terracrew.api.access import Role
from terracrew.api.sso import MappingRule, NewProvider, NewRule, ProviderChange, ProviderDetails
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import providers
from terracrew.server.principals.model import Principal
from tests.builders.clock import ShiftedClock
from tests.machine import oidc_issuer, oidc_provider
from tests.machine.oidc_issuer import Issuer
from tests.machine.oidc_provider import OidcProvider
from tests.server.application import Application, open_application
from tests.server.dashboard.visitor import Visitor, visitor
from tests.server.identity.sso.crook import Crook

SERVER = "http://127.0.0.1:7400"
SECRET = "the secret of the client at the provider"


@pytest.fixture(scope="session")
def provider_process() -> Iterator[OidcProvider]:
    """One provider for all tests of a process; each test sets its people and its client's addresses."""
    with oidc_provider.running() as found:
        yield found


class SignOn:
    """An application and a provider that it trusts, with ways to go through both as a browser does."""

    def __init__(self, application: Application, provider: OidcProvider) -> None:
        self.application, self.provider = application, provider
        self.made: ProviderDetails | None = None

    @property
    def id(self) -> str:
        assert self.made is not None
        return self.made.id

    async def connect(self, who: Principal | None = None, **wanted: Any) -> ProviderDetails:
        """Make the provider of the organization, and the client at the provider."""
        identity = self.application.server.identity
        new: dict[str, Any] = {
            "name": "Acme",
            "issuer": self.provider.url,
            "client_id": "crew",
            "client_secret": SECRET,
            "is_enabled": True,
        }
        made = await providers.create(
            identity.db,
            identity.keys,
            identity.sso.trust,
            who or manager(self.application),
            NewProvider(**(new | wanted)),
        )
        self.provider.register([client(made, wanted.get("client_id", "crew"))])
        self.made = made
        return made

    async def change(self, **wanted: Any) -> ProviderDetails:
        identity = self.application.server.identity
        change = ProviderChange(**wanted)
        return await providers.change(
            identity.db, identity.keys, identity.sso.trust, manager(self.application), self.id, change
        )

    async def asked(self, browser: Visitor, path: str = "", **params: str) -> str:
        """Begin a login, and return where the browser is sent."""
        answer = await browser.get(path or f"/login/sso/{self.id}", params=params)
        assert answer.status_code == 303, answer.text
        return answer.headers["Location"]

    async def come_back(self, browser: Visitor, location: str) -> httpx.Response:
        parts = urlsplit(location)
        return await browser.get(f"{parts.path}?{parts.query}")

    async def log_in(self, person: str) -> Visitor:
        browser = visitor(self.application)
        answer = await self.try_login(browser, person)
        assert answer.status_code == 303, answer.text
        return browser

    async def log_in_and_keep(self, browser: Visitor, person: str) -> Callable[[], Awaitable[None]]:
        """Log in, and return what logs the person out at the provider, in the browser that was there."""
        asked = await self.asked(browser)
        there = httpx.AsyncClient(base_url=self.provider.url)
        location = await at_provider(asked, person, there)
        assert (await self.come_back(browser, location)).status_code == 303

        async def leave() -> None:
            page = await there.get("/session/end")
            xsrf = re.search(r'name="xsrf" value="(\w+)"', page.text)
            assert xsrf is not None, page.text
            done = await there.post("/session/end/confirm", data={"xsrf": xsrf[1], "logout": "yes"})
            assert done.status_code in (302, 303), done.text
            await there.aclose()

        return leave

    async def delete(self) -> None:
        db = self.application.server.db
        await db.write(lambda tx: providers.delete(tx, manager(self.application), self.id))

    async def try_login(self, browser: Visitor, person: str, **params: str) -> httpx.Response:
        location = await at_provider(await self.asked(browser, **params), person)
        return await self.come_back(browser, location)


def manager(application: Application) -> Principal:
    """The administrator, logged in to the dashboard."""
    return msgspec.structs.replace(application.admin.principal, credential="session")


def client(made: ProviderDetails, client_id: str = "crew") -> dict[str, Any]:
    return {
        "client_id": client_id,
        "client_secret": SECRET,
        "redirect_uris": [made.redirect_uri],
        "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"],
        "scope": "openid profile offline_access",
        "backchannel_logout_uri": made.backchannel_logout_uri,
        "backchannel_logout_session_required": True,
    }


async def at_provider(url: str, person: str, browser: httpx.AsyncClient | None = None) -> str:
    """Log in on the provider's own pages, as a person without scripts does. Return where the provider sends the browser then."""
    if browser is None:
        async with httpx.AsyncClient(base_url="{0.scheme}://{0.netloc}".format(urlsplit(url))) as other:
            return await at_provider(url, person, other)
    answer = await browser.get(url)
    for _ in range(8):
        if answer.is_redirect:
            location = answer.headers["Location"]
            if location.startswith(SERVER):
                return location
            answer = await browser.get(location)
            continue
        assert answer.status_code == 200, answer.text
        form = re.search(r'<form[^>]*action="([^"]+)"', answer.text)
        assert form is not None, answer.text
        fields = (
            {"prompt": "login", "login": person, "password": "any"}
            if "password" in answer.text
            else {"prompt": "consent"}
        )
        answer = await browser.post(form[1], data=fields)
    raise AssertionError(f"the provider did not send the browser back: {answer.text[:500]}")


@pytest.fixture
async def sign_on(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None, provider_process: OidcProvider
) -> AsyncIterator[SignOn]:
    provider_process.begin(PEOPLE)
    settings: dict[str, Any] = {"federation_private_issuers": [provider_process.url]}
    async with open_application(database_url, memory_path / "data", clock=database_clock, **settings) as opened:
        yield SignOn(opened, provider_process)


PEOPLE: dict[str, dict[str, Any]] = {
    "248289761001": {
        "preferred_username": "Ada.Lovelace",
        "email": "admin@example.com",
        "groups": ["platform", "staff"],
    },
    "248289761002": {"preferred_username": "grace", "groups": ["team-data-ops", "staff"], "department": "data"},
    "248289761003": {"preferred_username": "admin", "email": "admin@example.com", "groups": []},
}
ADA, GRACE, NAMESAKE = PEOPLE


async def roles_of(sign_on: SignOn, name: str) -> set[tuple[str, str]]:
    """The roles that a user has by rules, with their places."""

    async def read(tx: Tx) -> set[tuple[str, str]]:
        user = await people.user(tx, name)
        return {(each.role.value, each.path) for each in await role_store.roles_of_source(tx, user.id, sign_on.id)}

    return await sign_on.application.server.db.read(read)


async def add_rule(sign_on: SignOn, value: str, role: Role, path: str = "", **more: Any) -> MappingRule:
    db = sign_on.application.server.db
    return await providers.add_rule(db, manager(sign_on.application), sign_on.id, NewRule(value, role, path, **more))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with oidc_issuer.running() as found:
        found.document |= {"authorization_endpoint": f"{found.url}/auth", "token_endpoint": f"{found.url}/token"}
        yield found


@pytest.fixture
async def application(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None, issuer: Issuer
) -> AsyncIterator[Application]:
    settings: dict[str, Any] = {"federation_private_issuers": [issuer.url]}
    async with open_application(database_url, memory_path / "data", clock=database_clock, **settings) as opened:
        yield opened


@pytest.fixture
async def crook(application: Application, issuer: Issuer) -> Crook:
    identity = application.server.identity
    wanted = NewProvider(name="Evil", issuer=issuer.url, client_id="crew", is_enabled=True)
    made = await providers.create(identity.db, identity.keys, identity.sso.trust, manager(application), wanted)
    found = Crook(application, issuer, made)
    await found.begin()
    return found
