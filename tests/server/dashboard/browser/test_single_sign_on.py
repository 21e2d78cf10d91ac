"""An administrator sets single sign-on up on its pages, and a person logs in through the login page of a real provider."""

import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.machine import oidc_provider
from tests.machine.oidc_provider import OidcProvider
from tests.server.dashboard.browser.every_page import look_at_shown
from tests.server.dashboard.company.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]
SECRET = "the secret of the client at the provider"
PEOPLE = {"248289761001": {"preferred_username": "grace", "groups": ["platform-admins", "everyone"]}}


@pytest_asyncio.fixture(loop_scope="module")
async def provider() -> AsyncIterator[OidcProvider]:
    with oidc_provider.running() as found:
        found.begin(PEOPLE)
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def stage(tmp_path: Path, provider: OidcProvider) -> AsyncIterator[Stage]:
    made = Stage(tmp_path, port=_free_port(), private_issuers=[provider.url])
    await made.start()
    yield made
    await made.stop()


def _free_port() -> int:
    """The provider sends the browser back to the address in the server's settings, so its port is chosen before."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.feature("P1.page")
async def test_a_provider_is_set_up_and_somebody_logs_in_by_it(
    page: Page, browser: Browser, stage: Stage, provider: OidcProvider
) -> None:
    await page.goto("/dashboard/single-sign-on")
    await page.get_by_role("link", name="Add provider…").first.click()
    await page.get_by_label("Name", exact=True).fill("Acme")
    await page.get_by_label("Issuer").fill(provider.url)
    await page.get_by_label("Client id").fill("crew")
    await page.get_by_label("Client secret").fill(SECRET)
    await page.get_by_role("button", name="Add provider").click()
    await expect(page.locator("h1")).to_have_text("Acme")
    redirect = await page.locator("td", has_text="/callback").inner_text()
    provider.register(
        [
            {
                "client_id": "crew",
                "client_secret": SECRET,
                "redirect_uris": [redirect],
                "grant_types": ["authorization_code", "refresh_token"],
                "scope": "openid profile offline_access",
            }
        ]
    )
    await page.get_by_role("button", name="Enable").click()
    await expect(page.get_by_role("button", name="Disable…")).to_be_visible()

    stranger = await browser.new_context(base_url=stage.url)
    door = await stranger.new_page()
    await door.goto("/login")
    await door.get_by_role("link", name="Log in with Acme").click()
    await door.locator("input[name=login]").fill("248289761001")
    await door.locator("input[name=password]").fill("any")
    await door.get_by_role("button", name=re.compile("Sign-in", re.IGNORECASE)).click()
    await expect(door).to_have_url(re.compile("/dashboard"))
    await expect(door.get_by_role("link", name="grace")).to_be_visible()

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
    await door.goto("/dashboard/modules")
    await expect(door.locator("h1")).to_have_text("Modules")
    await door.goto("/dashboard/account")
    await stranger.close()
