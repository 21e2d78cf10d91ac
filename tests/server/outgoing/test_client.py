"""Requests to addresses that people configured: what is sent, what is bounded, and what is never asked."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from terracrew.server.outgoing.answers import NotSent
from terracrew.server.outgoing.client import OutgoingClient, OutgoingRequest
from terracrew.server.outgoing.destinations import Destinations
from tests.machine import receiver as receivers
from tests.machine.receiver import Receiver

pytestmark = pytest.mark.feature("M3.addresses")
LOOPBACK = Destinations.parse(["127.0.0.0/8", "::1"])
NOTHING = Destinations()


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    async with receivers.running() as running:
        yield running


async def refusal(url: str, allowed: Destinations = NOTHING, **bounds: Any) -> NotSent:
    with pytest.raises(NotSent) as caught:
        await OutgoingClient(allowed).send("org_1", OutgoingRequest(url, **bounds))
    return caught.value


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name have these addresses."""

    def found(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 443)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found)


async def test_a_request_is_sent_and_its_answer_returned(receiver: Receiver) -> None:
    receiver.status, receiver.body, receiver.headers = 201, b"made", {"X-Twice": "1"}
    request = OutgoingRequest(receiver.url + "/a?b=c", "POST", {"Content-Type": "text/plain"}, b"body")
    answer = await OutgoingClient(LOOPBACK).send("org_1", request)
    assert (answer.status, answer.body, answer.headers["x-twice"], answer.incomplete) == (201, b"made", "1", "")
    [got] = receiver.received
    assert (got.method, got.target, got.body) == ("POST", "/a?b=c", b"body")
    assert got.headers["content-type"] == "text/plain"
    assert got.headers["host"] == receiver.url.removeprefix("http://")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "127.1",
        "169.254.169.254",
        "10.0.0.1",
        "[fd00:ec2::254]",
        "0.0.0.0",
    ],
)
async def test_no_spelling_of_a_private_address_is_asked(host: str) -> None:
    refused = await refusal(f"https://{host}:1/")
    assert refused.is_refused or "gaierror" in refused.reason


async def test_a_private_address_that_nobody_allowed_gets_no_request(receiver: Receiver) -> None:
    refused = await refusal(receiver.url, Destinations.parse(["10.0.0.0/8"]))
    assert refused.is_refused
    assert not receiver.received


@pytest.mark.parametrize("private", ["10.0.0.1", "169.254.169.254", "127.0.0.1", "::1"])
async def test_a_name_with_one_private_address_is_refused(private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, "8.8.8.8", private)
    refused = await refusal("https://rebinding.example/secret-path")
    assert (
        refused.reason
        == "rebinding.example has an address that is not public, and the server's settings do not allow that"
    )


async def test_a_name_is_looked_up_once_and_the_checked_address_is_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, asked = int(receiver.url.rpartition(":")[2]), list[str]()

    def lookup(host: Any, *_: Any, **__: Any) -> list[Any]:
        asked.append(str(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    answer = await OutgoingClient(Destinations.parse(["*.Receivers.test"])).send(
        "org_1", OutgoingRequest(f"http://one.receivers.test:{port}/")
    )
    assert answer.is_success
    assert asked == ["one.receivers.test"]


async def test_a_redirect_to_a_private_address_is_an_answer_and_not_followed(receiver: Receiver) -> None:
    async with receivers.running("127.0.0.2") as private:
        receiver.status, receiver.headers = 307, {"Location": private.url}
        answer = await OutgoingClient(Destinations.parse(["127.0.0.1"])).send("org_1", OutgoingRequest(receiver.url))
        assert (answer.status, answer.is_success) == (307, False)
        assert not private.received


async def test_a_public_address_is_asked_with_tls_only(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, "8.8.8.8")
    assert (await refusal("http://public.example/")).reason == "the address of public.example is not an https address"


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "file:///etc/passwd", "//x", "https://", "http://[::1", "http://a:b@127.0.0.1"]
)
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    assert (await refusal(url, LOOPBACK)).is_refused


async def test_headers_cannot_be_smuggled_into_a_request(receiver: Receiver) -> None:
    with pytest.raises(NotSent):
        await OutgoingClient(LOOPBACK).send("org_1", OutgoingRequest(receiver.url, headers={"X-A": "b\r\nX-C: d"}))
    assert not receiver.received


async def test_an_answer_has_a_largest_size_and_keeps_its_status(receiver: Receiver) -> None:
    receiver.body = b"x" * 50_000
    answer = await OutgoingClient(LOOPBACK).send("org_1", OutgoingRequest(receiver.url, max_bytes=1000))
    assert (answer.status, len(answer.body)) == (200, 1000)
    assert answer.incomplete == "127.0.0.1 answered with more than 1000 bytes"


async def test_a_receiver_that_does_not_answer_is_left_after_some_time(receiver: Receiver) -> None:
    receiver.open.clear()
    failure = await refusal(receiver.url, LOOPBACK, seconds=0.2)
    assert failure.reason == "127.0.0.1 did not answer within 0.2 seconds"
    assert not failure.is_refused


async def test_a_status_counts_although_the_rest_never_arrives(receiver: Receiver) -> None:
    """A receiver that has said 200 has the request: sending it again would only repeat it."""
    receiver.raw = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
    answer = await OutgoingClient(LOOPBACK).send("org_1", OutgoingRequest(receiver.url))
    assert (answer.status, answer.body, bool(answer.incomplete)) == (200, b"abc", True)


async def test_names_that_nobody_resolves_do_not_stop_another_organization(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over, usual = threading.Event(), socket.getaddrinfo

    def lookup(host: str, *rest: Any, **options: Any) -> Any:
        if host.endswith(".slow.example"):
            is_over.wait(60)
            raise socket.gaierror
        return usual(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    client = OutgoingClient(LOOPBACK)
    try:
        slow = [OutgoingRequest(f"https://{number}.slow.example", seconds=0.1) for number in range(20)]
        answers = await asyncio.gather(*(client.send("org_slow", each) for each in slow), return_exceptions=True)
        assert all(isinstance(each, NotSent) for each in answers)
        assert any("has not answered for other hosts" in str(each) for each in answers)
        assert (await client.send("org_1", OutgoingRequest(receiver.url))).is_success
    finally:
        is_over.set()


def test_what_the_setting_names_is_allowed_and_only_that() -> None:
    allowed = Destinations.parse(["10.1.0.0/16", "fd00::/8", "Hooks.Example.com", "*.internal.example.com"])
    assert allowed.allows("10.1.2.3")
    assert allowed.allows("fd00::1")
    assert allowed.allows("8.8.8.8")
    assert not allowed.allows("10.2.0.1")
    assert not allowed.allows("not an address")
    assert allowed.allows_host("hooks.example.com.")
    assert allowed.allows_host("a.b.internal.example.com")
    assert not allowed.allows_host("internal.example.com")
    assert not allowed.allows_host("xhooks.example.com")
