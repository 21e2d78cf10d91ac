"""The page of `tofu login` in a real browser brings the answer to a port of its machine, although the policy of pages is strict."""

import asyncio
import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from terracrew.server.identity.terminal_logins.model import MAX_PORT, MIN_PORT
from tests.server.dashboard.browser.every_page import look, look_at_shown

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


class WaitingTerminal:
    """Waits at a port for the answer, as the command line does."""

    def __init__(self) -> None:
        self.port = 0
        self.brought: asyncio.Queue[dict[str, list[str]]] = asyncio.Queue()

    async def start(self) -> asyncio.Server:
        for port in range(MIN_PORT, MAX_PORT + 1):
            try:
                server = await asyncio.start_server(self._answer, "127.0.0.1", port)
            except OSError:
                continue
            self.port = port
            return server
        raise AssertionError("all ports of the command line are taken")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode()
        target = urlsplit(line.split()[1])
        if target.path == "/login":
            self.brought.put_nowait(parse_qs(target.query))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<h1>Go back</h1>")
        await writer.drain()
        writer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def terminal() -> AsyncIterator[WaitingTerminal]:
    made = WaitingTerminal()
    server = await made.start()
    yield made
    server.close()


@pytest.mark.parametrize("button", ["Allow", "Deny"])
async def test_the_answer_is_brought_to_the_waiting_port(page: Page, terminal: WaitingTerminal, button: str) -> None:
    asked = {
        "client_id": "terraform-cli",
        "response_type": "code",
        "code_challenge_method": "S256",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "redirect_uri": f"http://localhost:{terminal.port}/login",
        "state": "some state",
    }
    assert await look(page, f"/dashboard/terminal-login?{urlencode(asked)}", is_similar=button == "Deny") == []
    await expect(page.get_by_label("Name of the token")).to_have_value(
        re.compile(r"tofu login on Linux, \d+ \w+ 20\d\d")
    )
    await page.get_by_role("button", name=button).click()
    await expect(page.locator("h1")).to_have_text("Go back")
    brought = await asyncio.wait_for(terminal.brought.get(), 10)
    assert brought["state"] == ["some state"]
    assert (brought.keys() - {"state"}) == {"code" if button == "Allow" else "error"}


async def test_a_code_is_typed_and_answered(page: Page) -> None:
    assert await look(page, "/dashboard/device") == []
    begun = await page.request.post("/connect/device", form={"client_id": "terracrew-cli", "machine": "ada@builder"})
    code = (await begun.json())["user_code"]
    await page.get_by_label("Code").fill(code.lower())
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Name of the token")).to_have_value("terracrew on ada@builder")
    await expect(page.locator("main")).to_contain_text("ada@builder")
    await expect(page.locator("main")).to_contain_text("127.0.0.1")
    assert await look_at_shown(page, "/dashboard/device question") == []
    await page.get_by_role("button", name="Allow").click()
    await expect(page.locator("h1")).to_have_text("The terminal is logged in")
    assert await look_at_shown(page, "/dashboard/device end") == []
