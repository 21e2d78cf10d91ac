"""A process that takes the place of another one leaves a trace with both addresses."""

from typing import Any

import msgspec
import pytest

from terracrew.server.hub.runners import takeover
from tests.server.hub.hub_clients import Hub

pytestmark = pytest.mark.feature("R4", "X3")


async def takeovers(hub: Hub) -> list[dict[str, Any]]:
    rows = await hub.server.db.read(
        lambda tx: tx.all("SELECT * FROM audit WHERE action = 'runner.takeover' ORDER BY id")
    )
    return [{**row, "details": msgspec.json.decode(row["details"])} for row in rows]


async def test_a_stranger_that_takes_a_place_is_written_down(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.2)
    async with hub.runner(), hub.connected(await hub.token()) as stranger:
        assert (await stranger.ask(hub.hello(instance_key="s" * 32)))["type"] == "welcome"
    [entry] = await takeovers(hub)
    assert (entry["actor_kind"], entry["target_id"], entry["address"]) == ("runner", hub.runner_id, "127.0.0.1")
    assert entry["details"]["replaced"] == "one"


async def test_who_has_the_key_and_comes_from_elsewhere_is_written_down_and_a_reconnection_is_not(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.2)
    async with hub.runner(), hub.connected(await hub.token()) as again:
        assert (await again.ask(hub.hello()))["type"] == "welcome"
    assert await takeovers(hub) == []
    async with hub.runner():
        await hub.server.db.write(lambda tx: tx.run("UPDATE instances SET address = '192.0.2.1'"))
        async with hub.connected(await hub.token()) as thief:
            assert (await thief.ask(hub.hello()))["type"] == "welcome"
    [entry] = await takeovers(hub)
    assert (entry["address"], entry["details"]["from"]) == ("127.0.0.1", "192.0.2.1")
