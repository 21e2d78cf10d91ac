"""The keys of issuers are cached, refreshed when a token names an unknown one, and kept while the issuer is away."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from terracrew.server.identity.federation import fetching, issuers, rules, verification
from terracrew.server.identity.federation.fetching import Fetcher
from terracrew.server.identity.federation.issuers import (
    FRESH_SECONDS,
    MAX_FETCHES_PER_ORGANIZATION,
    MAX_ISSUERS,
    RETRY_SECONDS,
    USABLE_SECONDS,
    Issuers,
    OrganizationCache,
)
from terracrew.server.identity.federation.model import TokenRefused
from tests.builders.clock import ManualClock
from tests.machine import oidc_issuer
from tests.machine.oidc_issuer import DISCOVERY, KEYS, Issuer

pytestmark = pytest.mark.feature("A3.keys")


def reader(*found: Issuer) -> tuple[Issuers, ManualClock]:
    clock = ManualClock(1000.0)
    return Issuers(Fetcher(frozenset(rules.origin(each.url) for each in found)), clock), clock


async def accepts(known: Issuers, issuer: Issuer, organization_id: str = "org_1") -> bool:
    token = verification.parse(issuer.token())
    return bool(verification.verify(token, await known.keys(organization_id, token)))


async def refusal(known: Issuers, issuer: Issuer) -> str:
    with pytest.raises(TokenRefused) as caught:
        await accepts(known, issuer)
    return caught.value.reason


async def test_keys_are_fetched_once(issuer: Issuer) -> None:
    known, _ = reader(issuer)
    assert all(await asyncio.gather(*(accepts(known, issuer) for _ in range(20))))
    assert issuer.asked == [DISCOVERY, KEYS]


async def test_a_new_key_is_found_at_once_but_unknown_keys_cannot_make_the_server_ask_often(issuer: Issuer) -> None:
    known, clock = reader(issuer)
    assert await accepts(known, issuer)
    clock.advance(RETRY_SECONDS)
    old = issuer.token()
    issuer.replace_key("two")
    assert await accepts(known, issuer)
    assert issuer.asked == [DISCOVERY, KEYS] * 2
    issuer.replace_key("three")
    for _ in range(3):
        assert await refusal(known, issuer) == "the issuer has no key that fits the token"
    assert issuer.asked == [DISCOVERY, KEYS] * 2
    clock.advance(RETRY_SECONDS)
    assert await accepts(known, issuer)
    with pytest.raises(TokenRefused):  # a key that is withdrawn is not used any more
        await known.keys("org_1", verification.parse(old))


async def test_a_key_that_the_issuer_has_just_made_for_a_token_is_found_at_once(issuer: Issuer) -> None:
    """A first login was refused, because Keycloak makes a key when a client wants its algorithm for the first time."""
    known, _ = reader(issuer)
    assert await accepts(known, issuer)
    issuer.replace_key("two")
    token = verification.parse(issuer.token())
    found = await asyncio.gather(*(known.keys("org_1", token, is_from_issuer=True) for _ in range(20)))
    assert all(verification.verify(token, each) for each in found)
    assert issuer.asked == [DISCOVERY, KEYS] * 2, "all wait for one fetch"
    issuer.replace_key("three")
    unknown = verification.parse(issuer.token())
    issuer.replace_key("two")
    with pytest.raises(TokenRefused):
        await known.keys("org_1", unknown, is_from_issuer=True)
    assert issuer.asked == [DISCOVERY, KEYS] * 3, "it is asked once for each token"


async def test_old_keys_are_fetched_again_and_used_for_some_hours_while_the_issuer_is_away(issuer: Issuer) -> None:
    known, clock = reader(issuer)
    assert await accepts(known, issuer)
    issuer.answers[DISCOVERY] = 503, {}, b""
    clock.advance(FRESH_SECONDS + 1)
    assert await accepts(known, issuer)
    assert await accepts(known, issuer)
    assert issuer.asked == [DISCOVERY, KEYS, DISCOVERY]
    clock.advance(USABLE_SECONDS)
    assert await refusal(known, issuer) == "the issuer's keys cannot be read: 127.0.0.1 answered 503"
    issuer.answers.clear()
    clock.advance(RETRY_SECONDS)
    assert await accepts(known, issuer)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"issuer": "https://other.example.com"}, "that of another issuer"),
        ({"jwks_uri": None}, "does not say where its keys are"),
        ({"jwks_uri": "/keys"}, "is not an https address"),
        ({"jwks_uri": "http://169.254.169.254/latest/meta-data"}, "is not an https address"),
        ({"jwks_uri": "https://127.0.0.1/keys"}, "not public"),
        ({"jwks_uri": "file:///etc/passwd"}, "is not an https address"),
        ({"jwks_uri": "https://a/\r\nHost: b"}, "does not say where its keys are"),
    ],
)
async def test_a_discovery_document_cannot_lead_elsewhere(
    issuer: Issuer, document: dict[str, str], reason: str
) -> None:
    issuer.document |= document
    known, _ = reader(issuer)
    assert reason in await refusal(known, issuer)
    assert issuer.asked == [DISCOVERY]


async def test_an_issuer_that_answers_nonsense_is_refused(issuer: Issuer) -> None:
    for path, body in ((DISCOVERY, b"<html>"), (DISCOVERY, b"[]"), (KEYS, b"{}"), (KEYS, b"\xff")):
        known, _ = reader(issuer)
        issuer.answers = {path: (200, {}, body)}
        assert "the issuer's keys cannot be read" in await refusal(known, issuer)


async def test_a_slow_issuer_delays_only_its_own_tokens(issuer: Issuer) -> None:
    with oidc_issuer.running() as slow:
        known, _ = reader(issuer, slow)
        slow.open.clear()
        waiting = [asyncio.create_task(accepts(known, slow)) for _ in range(10)]
        assert await asyncio.to_thread(slow.is_asked.wait, 60)
        assert await accepts(known, issuer)
        assert slow.asked == [DISCOVERY], "all of its tokens wait for one fetch"
        slow.open.set()
        assert all(await asyncio.gather(*waiting))


async def test_an_organization_with_many_slow_issuers_delays_no_other_one(issuer: Issuer) -> None:
    with oidc_issuer.running() as slow:
        known, _ = reader(issuer, slow)
        slow.open.clear()
        urls = [f"{slow.url}/{number}" for number in range(MAX_FETCHES_PER_ORGANIZATION * 6)]
        tokens = [verification.parse(slow.token(iss=url)) for url in urls]
        waiting = [asyncio.create_task(known.keys("org_slow", token)) for token in tokens]
        assert await asyncio.to_thread(slow.is_asked.wait, 60)
        assert await accepts(known, issuer, "org_other")
        slow.open.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(answer, TokenRefused) for answer in answers), "there is no document below those paths"


async def test_an_organization_with_names_that_nobody_resolves_delays_no_other_one(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup cannot be ended: its thread stays busy after the fetch was given up."""
    known, _ = reader(issuer)
    is_over, resolve = threading.Event(), socket.getaddrinfo

    def lookup(host: str, *rest: Any, **options: Any) -> Any:
        if host.endswith(".slow.example"):
            is_over.wait(60)
            raise socket.gaierror
        return resolve(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(fetching, "FETCH_SECONDS", 0.1)
            urls = [f"https://{number}.slow.example" for number in range(30)]
            tokens = [verification.parse(issuer.token(iss=url)) for url in urls]
            answers = await asyncio.gather(*(known.keys("org_slow", token) for token in tokens), return_exceptions=True)
        assert all(isinstance(answer, TokenRefused) for answer in answers)
        assert await accepts(known, issuer, "org_other")
    finally:
        is_over.set()


async def test_only_some_tokens_wait_for_one_issuer(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "MAX_WAITING", 2)
    known, _ = reader(issuer)
    issuer.open.clear()
    waiting = [asyncio.create_task(accepts(known, issuer)) for _ in range(2)]
    assert await asyncio.to_thread(issuer.is_asked.wait, 60)
    assert await refusal(known, issuer) == "too many tokens of this issuer wait for its keys"
    issuer.open.set()
    assert all(await asyncio.gather(*waiting))


def test_one_organization_removes_nothing_of_another_one_from_a_cache() -> None:
    cache = OrganizationCache[int](MAX_ISSUERS, max_organizations=2)
    cache.put("ours", "key", 1)
    for number in range(MAX_ISSUERS * 2):
        cache.put("theirs", f"key-{number}", number)
    assert (cache.get("ours", "key"), cache.get("theirs", "key-0"), len(cache)) == (1, None, MAX_ISSUERS + 1)
    cache.put("third", "key", 3)
    assert cache.get("theirs", f"key-{MAX_ISSUERS * 2 - 1}") is None, (
        "the organization that was not used for the longest time"
    )
    cache.drop("ours", lambda value: value == 1)
    assert cache.get("ours", "key") is None
