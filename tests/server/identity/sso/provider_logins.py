"""Logs people in at a real provider of identities and back here, as a browser without scripts does."""

import html
import re
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import httpx
import msgspec

from terracrew.api.access import Role
from terracrew.api.sso import MappingRule, NewProvider, NewRule, ProviderChange, ProviderDetails
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import providers
from terracrew.server.principals.model import Principal
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, visitor

SECRET = "the secret of the client at the provider"
PASSWORD = "any"
"""The password of everybody at every provider."""
PAGE_SECONDS = 30.0


class LoginServer(Protocol):
    """A running provider, at which clients can be registered."""

    @property
    def url(self) -> str:
        """Return its issuer."""
        ...

    def register(self, clients: list[dict[str, Any]]) -> None:
        """Replace all clients, which are described as in OpenID Connect Dynamic Client Registration."""
        ...


class ProviderLogins:
    """An application and a provider that it trusts, with ways to go through both as a browser does."""

    def __init__(self, application: Application, login_server: LoginServer) -> None:
        self.application, self._login_server = application, login_server
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
            "issuer": self._login_server.url,
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
        self._login_server.register([client(made, wanted.get("client_id", "crew"))])
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


def provider_browser(url: str) -> httpx.AsyncClient:
    """Return a browser for a provider's own pages.

    As every browser does, it sends cookies that are for secure connections also to this machine itself.
    """
    browser = httpx.AsyncClient(base_url=origin(url), timeout=PAGE_SECONDS)

    async def open_to_loopback(_: httpx.Response) -> None:
        for each in browser.cookies.jar:
            each.secure = False

    browser.event_hooks = {"response": [open_to_loopback]}
    return browser


async def at_provider(url: str, person: str, browser: httpx.AsyncClient | None = None) -> str:
    """Log in on the provider's own pages, as a person without scripts does. Return where the provider sends the browser then."""
    if browser is None:
        async with provider_browser(url) as other:
            return await at_provider(url, person, other)
    answer = await browser.get(url)
    for _ in range(8):
        if answer.is_redirect:
            location = urljoin(str(answer.url), answer.headers["Location"])
            if origin(location) != origin(url):
                return location
            answer = await browser.get(location)
            continue
        assert answer.status_code == 200, answer.text
        form = re.search(r'<form[^>]*action="([^"]+)"', answer.text)
        assert form is not None, answer.text
        answer = await browser.post(html.unescape(form[1]), data=_filled(answer.text, person))
    raise AssertionError(f"the provider did not send the browser back: {answer.text[:500]}")


def origin(url: str) -> str:
    return "{0.scheme}://{0.netloc}".format(urlsplit(url))


def _filled(page: str, person: str) -> dict[str, str]:
    """Fill in the form of a page: the login of Keycloak, the one of `oidc-provider`, or the latter's question for a consent."""
    if 'name="username"' in page:
        return {"username": person, "password": PASSWORD}
    if "password" in page:
        return {"prompt": "login", "login": person, "password": PASSWORD}
    return {"prompt": "consent"}


async def roles_of(sign_on: ProviderLogins, name: str) -> set[tuple[str, str]]:
    """The roles that a user has by rules, with their places."""

    async def read(tx: Tx) -> set[tuple[str, str]]:
        user = await people.user(tx, name)
        return {(each.role.value, each.path) for each in await role_store.roles_of_source(tx, [user.id], sign_on.id)}

    return await sign_on.application.server.db.read(read)


async def add_rule(sign_on: ProviderLogins, value: str, role: Role, path: str = "", **more: Any) -> MappingRule:
    db = sign_on.application.server.db
    return await providers.add_rule(db, manager(sign_on.application), sign_on.id, NewRule(value, role, path, **more))
