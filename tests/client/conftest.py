"""A server on loopback that the client's tests script."""

from collections.abc import Iterator

import pytest

from tests.client.scripted_server import ScriptedServer, running


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running() as found:
        yield found
