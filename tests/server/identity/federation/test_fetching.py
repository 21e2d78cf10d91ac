"""Documents of issuers are fetched with bounds, and never from this server's own network unless the settings allow it."""

import asyncio
import socket
from typing import Any

import pytest

from terracrew.client.public_addresses import is_public
from terracrew.server.identity.federation import fetching, rules
from terracrew.server.identity.federation.fetching import Fetcher
from terracrew.server.identity.federation.model import TokenRefused
from tests.machine.oidc_issuer import DISCOVERY, Issuer

pytestmark = pytest.mark.feature("A3.private")


async def refusal(fetcher: Fetcher, url: str, max_bytes: int = 1000) -> str:
    with pytest.raises(TokenRefused) as caught:
        await fetcher.get(url, max_bytes)
    return caught.value.reason


def allowing(issuer: Issuer) -> Fetcher:
    return Fetcher(frozenset({rules.origin(issuer.url)}))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "240.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:53aa:64c:0:0:80ff:fffe",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "3fff::1",
        "not an address",
    ],
)
def test_addresses_that_are_not_of_the_public_internet_are_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "140.82.112.3", "2606:4700::1111", "2a00:1450:4001:800::200e"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "[::1]", "2130706433", "0x7f.1", "127.1", "169.254.169.254"]
)
async def test_no_spelling_of_a_private_address_is_asked(host: str) -> None:
    reason = await refusal(Fetcher(), f"https://{host}:1{DISCOVERY}")
    assert "not public" in reason or "gaierror" in reason


async def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 443)) for each in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    reason = await refusal(Fetcher(), "https://rebinding.example/x")
    assert reason == "rebinding.example has an address that is not public, and the server's settings do not allow that"


async def test_the_connection_goes_to_the_address_that_was_checked(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is resolved a second time may have another address by then."""
    port, asked = int(issuer.url.rpartition(":")[2]), list[str]()

    def resolve(host: Any, *_: Any, **__: Any) -> list[Any]:
        asked.append(str(host))
        first = "127.0.0.1" if len(asked) == 1 else "127.0.0.2"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (first, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    url = f"http://issuer.test:{port}"
    assert await Fetcher(frozenset({rules.origin(url)})).get(url + DISCOVERY, 1000)
    assert asked == ["issuer.test"]


async def test_what_the_settings_allow_is_fetched_and_only_that(issuer: Issuer) -> None:
    assert b"jwks_uri" in await allowing(issuer).get(issuer.url + DISCOVERY, 1000)
    assert "not an https address" in await refusal(Fetcher(), issuer.url + DISCOVERY)
    for other in ("http://127.0.0.1:1/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "//x", "https://", "http://[::1"):
        assert await refusal(allowing(issuer), other)
    assert issuer.asked == [DISCOVERY]


async def test_the_query_of_an_address_is_sent(issuer: Issuer) -> None:
    """Azure AD B2C has the name of a policy there."""
    issuer.answers["/keys?p=sign-in"] = 200, {}, b"found"
    assert await allowing(issuer).get(issuer.url + "/keys?p=sign-in", 1000) == b"found"


async def test_a_redirect_is_not_followed(issuer: Issuer) -> None:
    issuer.answers["/from"] = 302, {"Location": issuer.url + "/to"}, b""
    assert await refusal(allowing(issuer), issuer.url + "/from") == "127.0.0.1 answered 302"
    assert issuer.asked == ["/from"]


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "5000000000"}])
async def test_a_large_answer_is_cut_off(issuer: Issuer, headers: dict[str, str]) -> None:
    issuer.answers["/large"] = 200, headers, b"x" * 300_000
    reason = await refusal(allowing(issuer), issuer.url + "/large", 100_000)
    assert reason == "127.0.0.1 answered with more than 100000 bytes"


async def test_a_slow_answer_is_not_waited_for(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_SECONDS", 0.3)
    issuer.open.clear()
    assert await refusal(allowing(issuer), issuer.url + "/x") == "127.0.0.1 did not answer within 0.3 seconds"


@pytest.mark.parametrize(
    "answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"x" * 99_000]
)
async def test_something_that_is_no_http_server_is_an_error(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as web:
        url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}"
        assert (await refusal(Fetcher(frozenset({rules.origin(url)})), url)).startswith("127.0.0.1 ")


async def test_a_port_where_nothing_listens_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        reason = await refusal(Fetcher(frozenset({rules.origin(url)})), url)
    assert reason == "127.0.0.1 refuses the connection"
