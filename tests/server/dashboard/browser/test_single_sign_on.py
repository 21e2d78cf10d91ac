"""An administrator sets single sign-on up on its pages, and a person logs in through the login page of a real provider."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.conftest import DATABASES, SQLITE_AT_LEAST
from tests.e2e.system import free_port
from tests.machine import keycloak_realm, oidc_provider, platforms
from tests.machine.keycloak_realm import KeycloakRealm
from tests.machine.oidc_provider import OidcProvider
from tests.server.dashboard.browser.every_page import look_at_shown
from tests.server.dashboard.company.stage import Stage
from tests.server.identity.sso.provider_logins import PASSWORD, SECRET, LoginServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]
GRACE = "248289761001"
PEOPLE = {GRACE: {"preferred_username": "grace", "groups": ["platform-admins", "everyone"]}}


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with oidc_provider.running() as found:
        found.begin(PEOPLE)
        yield found


@pytest.fixture
def realm() -> Iterator[KeycloakRealm]:
    with keycloak_realm.made(platforms.need("keycloak"), PASSWORD) as found:
        found.add_person("grace", "platform-admins", "everyone")
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A server that trusts the provider of the test. The provider sends the browser back, so the port is chosen before."""
    url: str = request.getfixturevalue("realm" if "realm" in request.fixturenames else "provider").url
    is_postgres = getattr(request, "param", "sqlite") == "postgres"
    database_url = request.getfixturevalue("postgres_url") if is_postgres else ""
    made = Stage(tmp_path, port=free_port(), database_url=database_url, private_issuers=[url])
    await made.start()
    yield made
    await made.stop()


async def set_up(page: Page, provider: LoginServer) -> None:
    """Add the provider and enable it, with the client that its page says there."""
    await page.goto("/dashboard/single-sign-on")
    await page.get_by_role("link", name="Add provider…").first.click()
    await page.get_by_label("Name", exact=True).fill("Acme")
    await page.get_by_label("Issuer").fill(provider.url)
    await page.get_by_label("Client id").fill("crew")
    await page.get_by_label("Client secret").fill(SECRET)
    await page.get_by_role("button", name="Add provider").click()
    await expect(page.locator("h1")).to_have_text("Acme")
    client: dict[str, Any] = {
        "client_id": "crew",
        "client_secret": SECRET,
        "redirect_uris": [await page.locator("td", has_text="/callback").inner_text()],
        "backchannel_logout_uri": await page.locator("td", has_text="/backchannel-logout").inner_text(),
        "grant_types": ["authorization_code", "refresh_token"],
        "scope": "openid profile offline_access",
    }
    provider.register([client])
    await page.get_by_role("button", name="Enable").click()
    await expect(page.get_by_role("button", name="Disable…")).to_be_visible()


async def add_rule(page: Page) -> None:
    """Try a rule, add it, and see the role on the page of claims."""
    await page.reload()
    await page.get_by_label("Value", exact=True).fill("platform-*")
    await page.get_by_label("The value is a pattern").check()
    await page.get_by_label("Role").select_option("operator")
    await page.get_by_role("button", name="Try without changing anything").click()
    await expect(page.locator("#tried")).to_contain_text("grace")
    assert await look_at_shown(page, "/dashboard/single-sign-on/tried") == []
    await page.get_by_role("button", name="Add rule").click()
    await expect(page.locator("#tried")).to_have_count(0)
    row = page.locator("#logins-title").locator("xpath=..").locator("tbody tr").first
    await expect(row).to_contain_text("platform-admins")
    await expect(row).to_contain_text("Operator of acme")
    await page.get_by_text("Claims of grace").click()
    assert await look_at_shown(page, "/dashboard/single-sign-on/claims") == []


@pytest.mark.feature("P1.page")
@pytest.mark.parametrize("stage", SQLITE_AT_LEAST, indirect=True)
async def test_a_provider_is_set_up_and_somebody_logs_in_by_it(
    page: Page, browser: Browser, stage: Stage, provider: OidcProvider
) -> None:
    await set_up(page, provider)
    stranger = await browser.new_context(base_url=stage.url)
    door = await stranger.new_page()
    await door.goto("/login")
    await door.get_by_role("link", name="Log in with Acme").click()
    await door.locator("input[name=login]").fill(GRACE)
    await door.locator("input[name=password]").fill(PASSWORD)
    await door.get_by_role("button", name=re.compile("Sign-in", re.IGNORECASE)).click()
    await expect(door).to_have_url(re.compile("/dashboard"))
    await expect(door.get_by_role("link", name="grace")).to_be_visible()
    await add_rule(page)
    await door.goto("/dashboard/modules")
    await expect(door.locator("h1")).to_have_text("Modules")
    await page.get_by_role("link", name="Settings").click()
    await page.get_by_label("People link themselves").check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("h1")).to_have_text("Acme")
    for shown in (door, page):  # one is linked, the other one is offered a link
        await shown.goto("/dashboard/account")
        await expect(shown.locator("#links-title, [id^=offer-]")).to_be_visible()
        assert await look_at_shown(shown, f"/dashboard/account/links-{shown is door}") == []
    there = await page.context.new_page()  # the provider's page asks for fonts of another host, which the console tells
    await there.goto("/dashboard/account")
    await there.get_by_role("button", name="Link yourself at Acme").click()
    await expect(there.locator("input[name=login]")).to_be_visible()
    assert there.url.startswith(provider.url)
    await there.close()
    await door.get_by_role("button", name="Log out").first.click()
    await expect(door).to_have_url(re.compile(re.escape(provider.url) + "/session/end"))
    await door.goto("/dashboard/account")
    await expect(door).to_have_url(re.compile("/login"))
    await stranger.close()


@pytest.mark.platform("keycloak")
@pytest.mark.feature("P1.logout")
async def test_a_logout_here_ends_the_session_at_keycloak_so_that_it_asks_for_the_password_again(
    page: Page, browser: Browser, stage: Stage, realm: KeycloakRealm
) -> None:
    await set_up(page, realm)
    stranger = await browser.new_context(base_url=stage.url)
    door = await stranger.new_page()
    await log_in_at_keycloak(door)
    await door.get_by_role("button", name="Log out").click()
    await door.get_by_role("button", name="Logout").click()
    await expect(door.get_by_role("heading", name="You are logged out")).to_be_visible()
    await log_in_at_keycloak(door)
    await stranger.close()


async def log_in_at_keycloak(door: Page) -> None:
    await door.goto("/dashboard/modules")
    await door.get_by_role("link", name="Log in with Acme").click()
    await door.locator("input[name=username]").fill("grace")
    await door.locator("input[name=password]").fill(PASSWORD)
    await door.get_by_role("button", name="Sign in").click()
    await expect(door.locator("h1")).to_have_text("Modules")


@pytest.mark.platform("keycloak")
@pytest.mark.feature("P1.page", "P1.logout")
@pytest.mark.parametrize("stage", DATABASES, indirect=True)
@pytest.mark.parametrize("channel", ["back", "front"])
async def test_somebody_logs_in_at_keycloak_and_a_logout_there_ends_the_session_here(
    page: Page, browser: Browser, stage: Stage, realm: KeycloakRealm, channel: str
) -> None:
    await set_up(page, realm)
    if channel == "front":
        realm.use_front_channel("crew", await page.locator("td", has_text="/frontchannel-logout").inner_text())
    stranger = await browser.new_context(base_url=stage.url, viewport={"width": 390, "height": 844})
    door = await stranger.new_page()
    await log_in_at_keycloak(door)
    await add_rule(page)
    await log_out_at_keycloak(stranger, realm)
    await door.reload()
    await expect(door.get_by_role("link", name="Log in with Acme")).to_be_visible()
    await stranger.close()


async def log_out_at_keycloak(context: BrowserContext, realm: KeycloakRealm) -> None:
    """Log out on the provider's own page, in the browser that is logged in there."""
    there = await context.new_page()
    await there.goto(f"{realm.url}/protocol/openid-connect/logout")
    await there.get_by_role("button", name="Logout").click()
    await expect(there.get_by_role("heading", name=re.compile("You are logged out|Logging out"))).to_be_visible()
    await there.close()
