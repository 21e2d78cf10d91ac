"""People who log out here log out at their provider, too, if it has an address for that."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from terracrew.api.sso import ProviderChange
from terracrew.server.identity.sso import providers
from tests.machine.oidc_issuer import Issuer
from tests.server.application import on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.identity.sso.conftest import ADA, SignOn, manager
from tests.server.identity.sso.crook import Crook, led

pytestmark = [on_one, pytest.mark.feature("P1.departure")]


@pytest.fixture
def issuer(issuer: Issuer, request: pytest.FixtureRequest) -> Issuer:
    """An issuer with an address for logouts, or with what a test gives instead of one."""
    issuer.document["end_session_endpoint"] = getattr(request, "param", f"{issuer.url}/end?tenant=a")
    return issuer


async def change(crook: Crook, **wanted: Any) -> None:
    server = crook.application.server
    given = ProviderChange(**wanted)
    await providers.change(
        server.db, server.keys, server.identity.sso.trust, manager(crook.application), crook.made.id, given
    )


async def logout(crook: Crook) -> str:
    """Log in and out, and return where the browser is led."""
    await crook.begin()
    assert (await crook.come_back(crook.token())).status_code == 303
    await crook.browser.see("/dashboard/account")
    answer = await crook.browser.submit("/logout")
    assert answer.status_code == 303
    assert (await crook.browser.get("/dashboard/account")).status_code == 303, "the session here has ended in any case"
    return answer.headers["Location"]


async def test_a_logout_leads_to_that_of_the_provider_without_a_token(crook: Crook) -> None:
    there = await logout(crook)
    assert there == f"/login/sso/{crook.made.id}/logout"
    address = led(await crook.browser.see(there))
    assert address.startswith(f"{crook.issuer.url}/end?tenant=a&")
    assert parse_qs(urlsplit(address).query) == {"tenant": ["a"], "client_id": ["crew"]}
    await change(crook, returns_after_logout=True)
    asked = parse_qs(urlsplit(led(await crook.browser.see(there))).query)
    assert asked["post_logout_redirect_uri"] == ["http://127.0.0.1:7400/login"]
    await change(crook, ends_session_there=False)
    assert await logout(crook) == "/login"
    assert (await crook.browser.get(there)).headers["Location"] == "/login"


@pytest.mark.parametrize(
    "issuer", [None, "javascript:alert(1)", "http://other.example.com/end", "https://a@b.example/end", 7], indirect=True
)
async def test_a_provider_without_an_address_for_it_keeps_nobody_here(crook: Crook) -> None:
    answer = await crook.browser.get(await logout(crook))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")


async def test_a_link_logs_nobody_out_and_leads_nowhere_else(crook: Crook) -> None:
    browser = await logged_in(crook.application)
    answer = await browser.get(f"/login/sso/{crook.made.id}/logout")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/dashboard")
    assert (await browser.get("/dashboard/account")).status_code == 200
    await browser.see("/dashboard/account")
    assert (await browser.submit("/logout")).headers["Location"] == "/login", "a login with a password ends here"
    for unknown in ("idp_nothing", "x", "%2F%2Fevil.example"):
        answer = await crook.browser.get(f"/login/sso/{unknown}/logout")
        assert answer.headers["Location"] == "/login"


async def test_the_logout_of_a_real_provider_knows_the_request(sign_on: SignOn) -> None:
    await sign_on.connect()
    browser = await sign_on.log_in(ADA)
    await browser.see("/dashboard/account")
    there = (await browser.submit("/logout")).headers["Location"]
    address = led(await browser.see(there))
    page = await sign_on.page_there(address)
    assert "logout" in page.lower(), page
    assert "error" not in page.lower(), page
