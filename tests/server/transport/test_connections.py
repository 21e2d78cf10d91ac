"""Open connections are limited in total and by address, and idle ones make room for new ones."""

from terracrew.server.addresses import is_loopback, limit_key, parse_networks
from terracrew.server.transport.connections import Connections


class Idle:
    """A connection that can be closed."""

    def __init__(self, table: Connections, key: str) -> None:
        self.table, self.key, self.is_closed = table, key, False

    def close_idle(self) -> None:
        self.is_closed = True
        self.table.release(self, self.key)


def opened(table: Connections, address: str) -> Idle | None:
    key = table.admit(address)
    return None if key is None else Idle(table, key)


def test_one_address_cannot_take_all_connections() -> None:
    table = Connections(10, 3)
    assert all(opened(table, "192.0.2.1") for _ in range(3))
    assert opened(table, "192.0.2.1") is None
    assert opened(table, "192.0.2.2") is not None
    assert (table.total, table.refused_total) == (4, 1)


def test_the_total_is_limited_whoever_comes() -> None:
    table = Connections(3, 3)
    assert all(opened(table, f"192.0.2.{number}") for number in range(3))
    assert opened(table, "192.0.2.9") is None


def test_the_longest_idle_connection_makes_room_and_a_busy_one_does_not() -> None:
    table = Connections(10, 2)
    first, second = opened(table, "192.0.2.1"), opened(table, "192.0.2.1")
    assert first is not None
    assert second is not None
    table.mark_idle(first, first.key)
    table.mark_idle(second, second.key)
    table.mark_busy(first)
    assert opened(table, "192.0.2.1") is not None
    assert (first.is_closed, second.is_closed, table.total) == (False, True, 2)
    assert opened(table, "192.0.2.1") is None


def test_the_total_evicts_idle_connections_of_others() -> None:
    table = Connections(2, 2)
    idle = opened(table, "192.0.2.1")
    assert idle is not None
    table.mark_idle(idle, idle.key)
    assert opened(table, "192.0.2.2")
    assert opened(table, "192.0.2.3")
    assert idle.is_closed


def test_a_websocket_counts_in_the_total_only() -> None:
    table = Connections(3, 1)
    for _ in range(3):
        connection = opened(table, "192.0.2.1")
        assert connection is not None
        table.upgrade(connection, connection.key)
    assert opened(table, "192.0.2.1") is None
    table.release_upgraded()
    assert opened(table, "192.0.2.1") is not None


def test_a_trusted_proxy_speaks_for_many_clients() -> None:
    table = Connections(10, 1, parse_networks(["10.0.0.0/8"]))
    assert all(opened(table, "10.1.2.3") for _ in range(5))


def test_nothing_is_remembered_of_connections_that_have_ended() -> None:
    table = Connections(10, 10)
    for number in range(100):
        connection = opened(table, f"192.0.2.{number}")
        assert connection is not None
        table.mark_idle(connection, connection.key)
        table.release(connection, connection.key)
    assert (table.total, table.clients, table.idle) == (0, {}, {})


def test_an_ipv6_client_is_counted_by_its_64_bit_prefix() -> None:
    assert limit_key("2001:db8:1:2::1") == limit_key("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
    assert limit_key("2001:db8:1:3::1") != limit_key("2001:db8:1:2::1")
    assert limit_key("::ffff:192.0.2.1") == limit_key("192.0.2.1") == "192.0.2.1"
    assert limit_key("fe80::1%eth0") == "fe80::/64"


def test_loopback_is_known_in_every_form_that_a_socket_shows() -> None:
    """A server on `::` took a command on its own machine, at 127.0.0.1, for one from elsewhere."""
    assert all(map(is_loopback, ("127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost")))
    assert not any(map(is_loopback, ("192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "unknown", "")))
