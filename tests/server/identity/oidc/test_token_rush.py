"""A whole fleet that asks a slow server for tokens at once is served in the end."""

import asyncio
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from terracrew.server.identity import limits
from tests.server.hub.hub_clients import Hub

pytestmark = [
    pytest.mark.feature("O1.reconnect", "O6.stampede"),
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),
]
RUNNERS = 60
EXCHANGE_SECONDS = 0.05
PATIENCE_SECONDS = 1.0
"""Of one request: a third of the time that the server needs for all of them."""


@pytest.fixture
def slow(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """One exchange at a time, each of which takes a while, as on a busy machine."""
    tokens = hub.server.identity.tokens
    sign, machine = tokens.signing.sign, asyncio.Lock()

    async def signed_slowly(*args: Any) -> str:
        async with machine:
            await asyncio.sleep(EXCHANGE_SECONDS)
            return await sign(*args)

    monkeypatch.setattr(tokens.signing, "sign", signed_slowly)
    monkeypatch.setattr(tokens, "turns", limits.ExchangeQueue(at_once=3, max_wait_seconds=PATIENCE_SECONDS / 3))
    monkeypatch.setattr(limits, "RETRY_AFTER_SECONDS", 0.1)
    return hub


async def test_a_rush_for_tokens_ends_though_nobody_waits_for_long(slow: Hub) -> None:
    """Who had waited in vain asked again, while the server still worked for its old request: the queue never got shorter.

    5,000 runners did not come back within 180 s after a restart of the server.
    """
    url = slow.url.replace("ws://", "http://").replace("/runnerhub", "/connect/token")
    form = {"grant_type": "client_credentials", "client_id": slow.runner_id, "client_secret": slow.secret}
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    statuses: list[int] = []

    async def runner(client: httpx.AsyncClient) -> None:
        while True:
            try:
                answer = await client.post(url, content=urlencode(form), headers=headers, timeout=PATIENCE_SECONDS)
            except httpx.TimeoutException:
                continue
            statuses.append(answer.status_code)
            if answer.status_code == 200:
                return
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
            await asyncio.sleep(0.1)

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with asyncio.timeout(20), httpx.AsyncClient(limits=limits) as client, asyncio.TaskGroup() as tasks:
        for _ in range(RUNNERS):
            tasks.create_task(runner(client))
    assert statuses.count(200) == RUNNERS
    assert 503 in statuses, "those that could not be served in time were told so"
