"""What a runner may say of its dispatchers when it connects."""

import pytest

from terracrew.protocol import dispatcher_choice
from terracrew.protocol.dispatcher_choice import AllowedChoices, OfferedDispatcher
from tests.server.hub.hub_clients import Hub


def offers(pattern_characters: int) -> list[OfferedDispatcher]:
    """As many dispatchers and patterns as a runner may have, all of this length."""
    patterns = [f"{number:02}".ljust(pattern_characters, "x") for number in range(dispatcher_choice.MAX_PATTERNS)]
    allows = AllowedChoices(patterns, None, None, patterns)
    return [OfferedDispatcher(f"d{number}", "docker", allows) for number in range(dispatcher_choice.MAX_DISPATCHERS)]


@pytest.mark.feature("D1.asked")
async def test_the_offers_of_a_runner_have_a_limit_in_bytes(hub: Hub) -> None:
    """Symptom: each limit was kept, and still half a megabyte was stored, and was read for each job that was to be placed."""
    async with hub.connected(await hub.token()) as client:
        refused = await client.ask(hub.hello(dispatchers=offers(dispatcher_choice.MAX_PATTERN_CHARACTERS)))
    assert refused["type"] == "refused"
    assert "up to 64 KiB" in refused["message"]
    async with hub.connected(await hub.token()) as client:
        assert (await client.ask(hub.hello(dispatchers=offers(30))))["type"] == "welcome"
