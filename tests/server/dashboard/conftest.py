"""Fixtures of the pages: a seeded server over HTTP on both databases, and one in a real browser."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people.sessions import COOKIE
from tests.machine.needs import chromium
from tests.server.application import Application
from tests.server.dashboard.company.seed import company
from tests.server.dashboard.company.stage import PASSWORD, Stage

SHOTS = Path("build/screenshots")
expect.set_options(timeout=30_000)  # a bound, not a wait: what is expected is seen as soon as it is there


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        yield await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])


@pytest_asyncio.fixture(loop_scope="module")
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """A server on SQLite, or on the database that the parameter of the test names."""
    is_postgres = getattr(request, "param", "sqlite") == "postgres"
    made = Stage(tmp_path, database_url=request.getfixturevalue("postgres_url") if is_postgres else "")
    await made.start()
    yield made
    await made.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser, stage: Stage) -> AsyncIterator[BrowserContext]:
    """A browser that is logged in. The link is used without its page, which takes a second; `test_pages` uses it as a person does."""
    made = await browser.new_context(viewport={"width": 1280, "height": 860}, base_url=stage.url)
    token = stage.link.rpartition("/")[2]
    session = await identity.redeem_link(stage.server.identity, token, "127.0.0.1", PASSWORD)
    await made.add_cookies(
        [{"name": COOKIE, "value": session.token, "url": stage.url, "httpOnly": True, "sameSite": "Lax"}]
    )
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A page that must not complain: anything in its console fails the test."""
    made = await context.new_page()
    complaints: list[str] = []
    made.on(
        "console",
        lambda said: complaints.append(f"{made.url}: {said.text}") if said.type in ("error", "warning") else None,
    )
    made.on("pageerror", lambda error: complaints.append(f"{made.url}: {error}"))
    yield made
    # A search gives up the refresh that it overtakes, and htmx tells the console so.
    given_up = ("htmx:sendAbort", "htmx:afterRequest")
    # The page of a service account that is being deleted may refresh itself once more before the browser leaves it.
    left = [said for said in complaints if not re.search(r"/service-accounts/sac_\w+.*\b404\b", said, re.DOTALL)]
    assert not [said for said in left if not any(word in said for word in given_up)]


@pytest.fixture
async def jobs(application: Application) -> dict[str, str]:
    server = application.server
    return await company(server.db, server.keys, server.organization_id, application.admin.principal.id)


@pytest.fixture
def long_listening(application: Application) -> None:
    """The server has listened for so long that every runner that was not heard is silent."""
    application.server.registry.now = lambda: time.monotonic() + 500
