"""Reads what a refused connection is told."""

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.hub.hub_clients import Client


async def refusal(client: Client) -> tuple[str, bool]:
    """Why the server ends the connection, and whether that is for good."""
    found = await client.get("refused")
    with pytest.raises(ConnectionClosed):
        await client.get()
    return found["code"], found["is_final"]
