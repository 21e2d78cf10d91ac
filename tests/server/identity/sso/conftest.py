"""A server whose organization has a real provider of identities."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from terracrew.api.sso import NewProvider
from terracrew.server.identity.sso import providers
from tests.builders.clock import ShiftedClock
from tests.machine import oidc_issuer, oidc_provider
from tests.machine.oidc_issuer import Issuer
from tests.machine.oidc_provider import OidcProvider
from tests.server.application import Application, open_application
from tests.server.dashboard.visitor import Visitor
from tests.server.identity.sso.crook import Crook
from tests.server.identity.sso.provider_logins import ProviderLogins, at_provider, manager, provider_browser


@pytest.fixture(scope="session")
def provider_process() -> Iterator[OidcProvider]:
    """One provider for all tests of a process; each test sets its people and its client's addresses."""
    with oidc_provider.running() as found:
        yield found


class SignOn(ProviderLogins):
    """An application and `oidc-provider`, whose people a test can change."""

    def __init__(self, application: Application, provider: OidcProvider) -> None:
        super().__init__(application, provider)
        self.provider = provider

    async def log_in_and_keep(self, browser: Visitor, person: str) -> Callable[[], Awaitable[None]]:
        """Log in, and return what logs the person out at the provider, in the browser that was there."""
        asked = await self.asked(browser)
        there = provider_browser(self.provider.url)
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

    async def page_there(self, address: str) -> str:
        """A page of the provider, as somebody sees it whom it does not know."""
        async with httpx.AsyncClient() as browser:
            return (await browser.get(address)).text


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
