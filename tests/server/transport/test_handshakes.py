"""WebSocket handshakes wait for their turn."""

import asyncio

import pytest

from terracrew.server.transport import handshakes
from terracrew.server.transport.handshakes import Handshakes


class Client:
    """A connection that notes when its handshake begins."""

    def __init__(self, name: str, begun: list[str]) -> None:
        self.name, self._begun = name, begun

    def begin_handshake(self) -> None:
        self._begun.append(self.name)


@pytest.fixture
def begun() -> list[str]:
    return []


async def test_few_handshakes_are_active_and_the_next_begins_when_a_turn_ends(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "MAX_ACTIVE_HANDSHAKES", 2)
    table = Handshakes()
    clients = [Client(str(number), begun) for number in range(4)]
    assert all(table.add(client, "192.0.2.1") for client in clients)
    assert begun == [], "the loop is free to do something else first"
    await asyncio.sleep(0)
    assert begun == ["0", "1"]
    table.end_turn(clients[0])
    table.end_turn(clients[0])
    await asyncio.sleep(0)
    assert begun == ["0", "1", "2"]


async def test_each_network_has_equal_turns(begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "MAX_ACTIVE_HANDSHAKES", 4)
    table = Handshakes()
    for number in range(10):
        table.add(Client(f"flood {number}", begun), "192.0.2.1")
    table.add(Client("runner", begun), "192.0.2.2")
    await asyncio.sleep(0)
    assert begun == ["flood 0", "runner", "flood 1", "flood 2"]


async def test_what_waits_is_limited_for_each_network_and_in_total(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "MAX_WAITING_PER_NETWORK", 2)
    monkeypatch.setattr(handshakes, "MAX_WAITING_HANDSHAKES", 3)
    table = Handshakes()
    waiting = [Client(str(number), begun) for number in range(3)]
    assert table.add(waiting[0], "192.0.2.1")
    assert table.add(waiting[1], "192.0.2.1")
    assert not table.add(waiting[2], "192.0.2.1")
    assert table.add(waiting[2], "192.0.2.2")
    assert not table.add(Client("late", begun), "192.0.2.2")
    table.remove(waiting[0], "192.0.2.1")
    table.remove(waiting[0], "192.0.2.1")
    assert table.add(Client("3", begun), "192.0.2.1")
    await asyncio.sleep(0)
    assert begun == ["1", "2", "3"]


async def test_networks_that_fill_the_table_do_not_shut_out_another_one(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two networks could keep all places occupied, and a runner of a third one was refused again and again."""
    monkeypatch.setattr(handshakes, "MAX_WAITING_HANDSHAKES", 4)
    table = Handshakes()
    for number in range(8):
        table.add(Client("flood", begun), f"192.0.2.{number % 2}")
    assert table.add(Client("runner", begun), "198.51.100.1")
    assert not table.add(Client("second runner", begun), "198.51.100.1")
    await asyncio.sleep(0)
    assert begun[:3] == ["flood", "flood", "runner"]


async def test_a_turn_that_waits_for_the_database_ends_by_itself(
    begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "MAX_ACTIVE_HANDSHAKES", 1)
    monkeypatch.setattr(handshakes, "MAX_TURN_SECONDS", 0.01)
    table = Handshakes()
    for number in range(2):
        table.add(Client(str(number), begun), "192.0.2.1")
    async with asyncio.timeout(5):
        while begun != ["0", "1"]:
            await asyncio.sleep(0.005)
