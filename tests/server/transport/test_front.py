"""The server knows where a request comes from, and answers only for its own host names."""

from typing import Any

import httpx
import pytest

from terracrew.server.addresses import parse_networks
from terracrew.server.transport.forwarded import client_of, scheme_of
from terracrew.server.transport.front import AllowedHosts, Front
from terracrew.settings.server import ServerSettings

PROXIES = parse_networks(["10.0.0.0/8", "::1"])


def forwarded(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-forwarded-for", value.encode("latin-1")) for value in values]


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        ("192.0.2.1", ["203.0.113.9"], "192.0.2.1"),
        ("127.0.0.1", ["203.0.113.9"], "127.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("::1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("10.0.0.1", ["1.1.1.1, rubbish"], "10.0.0.1"),
        ("10.0.0.1", ["rubbish, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [""], "10.0.0.1"),
    ],
)
def test_the_rightmost_address_that_is_no_trusted_proxy_is_the_client(
    peer: str, values: list[str], client: str
) -> None:
    assert client_of(peer, forwarded(*values), PROXIES) == client


def test_only_a_trusted_proxy_says_that_its_client_came_by_https() -> None:
    headers = [(b"x-forwarded-proto", b"https")]
    assert scheme_of("10.0.0.1", headers, PROXIES) == "https"
    assert scheme_of("127.0.0.1", headers, PROXIES) is None
    assert scheme_of("10.0.0.1", [(b"x-forwarded-proto", b"gopher")], PROXIES) is None


@pytest.mark.parametrize(
    ("header", "is_allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:7400", True),
        ("127.0.0.1:7400", True),
        ("127.8.9.1", True),
        ("[::1]:7400", True),
        ("crew.example.com", True),
        ("crew.example.com:8443", True),
        ("crew.example.com.", True),
        ("a.apps.example.org", True),
        ("192.0.2.7:7400", True),
        ("evil.example", False),
        ("crew.example.com.evil.example", False),
        ("apps.example.org", False),
        ("", False),
        ("192.0.2.8", False),
        ("a b", False),
        ("[::1", False),
        ("localhost:99999999", False),
        ("user@localhost", False),
        ("localhost/x", False),
        ("evil.example#localhost", False),
        ("\x80", False),
        ("localhost:x", False),
    ],
)
def test_names_that_are_not_this_servers_are_refused(header: str, is_allowed: bool) -> None:
    hosts = AllowedHosts(["*.apps.example.org"], "https://crew.example.com:8443", "")
    assert hosts.is_allowed(header, "192.0.2.7") is is_allowed


async def _echo(scope: Any, _: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{scope['client'][0]} {scope['scheme']}".encode()})


def client(address: str = "127.0.0.1", **settings: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Front(_echo, ServerSettings(**settings)), client=(address, 4711))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:7400")


async def test_nobody_is_trusted_unless_the_settings_say_so() -> None:
    """`X-Forwarded-For` from loopback was believed by default, so a local user chose the address that was limited."""
    headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    async with client() as stranger:
        assert (await stranger.get("/", headers=headers)).text == "127.0.0.1 http"
    async with client(trusted_proxies=("127.0.0.1",)) as proxy:
        assert (await proxy.get("/", headers=headers)).text == "203.0.113.9 https"


async def test_another_host_is_refused_in_words_and_probes_are_not() -> None:
    async with client() as visitor:
        answer = await visitor.get("/metrics", headers={"Host": "evil.example"})
        assert (answer.status_code, answer.headers["Content-Type"]) == (421, "application/problem+json")
        assert "--allowed-hosts" in answer.json()["detail"]
        for path in ("/healthz", "/readyz"):
            assert (await visitor.get(path, headers={"Host": "10.1.2.3:80"})).status_code == 200
