"""What becomes of sessions when something fails between a provider's answer and what is stored of it.

Invariant: a refresh token is used once, and the next one is not lost, whatever fails after the provider has sent it. The provider here
ends everything when an earlier token comes back, as many do.
"""

import asyncio
import json
import threading
from typing import Any
from urllib.parse import parse_qs

import pytest

from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database, T, Tx, Work
from terracrew.server.identity.federation.fetching import Fetcher
from terracrew.server.identity.federation.issuers import Issuers
from terracrew.server.identity.sso.arrivals import REFRESH_SECONDS
from terracrew.server.identity.sso.exchanges import Exchanges
from terracrew.server.identity.sso.refresh import CLAIM_SECONDS, RETRY_SECONDS, SignOnRefresh
from tests.builders.clock import ShiftedClock
from tests.machine.oidc_issuer import KEYS, Issuer
from tests.server.application import on_one
from tests.server.dashboard.visitor import Visitor, visitor
from tests.server.identity.sso.crook import Crook

pytestmark = [on_one, pytest.mark.feature("P1.refresh")]


@pytest.fixture
def database_clock() -> ShiftedClock:
    return ShiftedClock()


class RotatingTokens:
    """The token endpoint of an issuer that replaces refresh tokens, and notices when one is used twice."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer, self._usual, self._lock = issuer, issuer.answer, threading.Lock()
        self.valid: dict[str, str] = {}
        """The person of each refresh token that may be used."""
        self.used = 0
        issuer.answer = self._answer

    def begin(self, subject: str) -> str:
        """Return the first refresh token of a session."""
        self.valid[text := f"{subject}-0"] = subject
        return text

    def _answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        asked = parse_qs(self._issuer.posted[-1]) if self._issuer.posted else {}
        if path != "/token" or asked.get("grant_type") != ["refresh_token"]:
            return self._usual(path)
        with self._lock:
            given = next(text for each in self._issuer.posted for text in parse_qs(each).get("refresh_token", ()))
            self._issuer.posted.remove(next(each for each in self._issuer.posted if given in each))
            subject = self.valid.pop(given, None)
            if subject is None:
                self.valid.clear()
                return 400, {}, b'{"error": "invalid_grant"}'
            self.used += 1
            self.valid[text := f"{subject}-{self.used}"] = subject
        token = self._issuer.token("crew", sub=subject, preferred_username=subject)
        return 200, {}, json.dumps({"id_token": token, "access_token": "a", "refresh_token": text}).encode()


@pytest.fixture
def tokens(issuer: Issuer) -> RotatingTokens:
    return RotatingTokens(issuer)


async def log_in(crook: Crook, tokens: RotatingTokens, subject: str) -> Visitor:
    crook.browser = visitor(crook.application)
    await crook.begin()
    first = tokens.begin(subject)
    said = {"id_token": crook.token(sub=subject, preferred_username=subject), "refresh_token": first}
    crook.issuer.answers["/token"] = 200, {}, json.dumps(said).encode()
    assert (await crook.come_back()).status_code == 303
    return crook.browser


def loop_of(crook: Crook, db: Database | None = None, exchanges: Exchanges | None = None) -> SignOnRefresh:
    server = crook.application.server
    return SignOnRefresh(db or server.db, server.keys, exchanges or server.identity.sso.exchanges)


async def is_in(browser: Visitor) -> bool:
    return (await browser.get("/dashboard/account")).status_code == 200


async def test_an_answer_that_cannot_be_proved_at_that_moment_logs_nobody_out(
    crook: Crook, tokens: RotatingTokens, database_clock: ShiftedClock
) -> None:
    """The token endpoint has replaced the refresh token, and the keys of the provider cannot be read for a moment."""
    grace, loop = await log_in(crook, tokens, "grace"), loop_of(crook)
    crook.issuer.replace_key("two")
    crook.issuer.answers[KEYS] = 503, {}, b""
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await loop.step() == 1
    assert await is_in(grace)
    del crook.issuer.answers[KEYS]
    fetcher = Fetcher(frozenset({crook.issuer.url}))
    later = Exchanges(fetcher, Issuers(fetcher))  # minutes later, it does not put off the next fetch of keys
    database_clock.advance(RETRY_SECONDS + 1)
    assert await loop_of(crook, exchanges=later).step() == 1
    assert tokens.used == 2, "the second request had the token of the first answer"
    assert await is_in(grace)


async def test_a_session_that_cannot_be_asked_about_keeps_no_other_one_from_it(
    crook: Crook, tokens: RotatingTokens, database_clock: ShiftedClock
) -> None:
    ada, grace, loop = await log_in(crook, tokens, "ada"), await log_in(crook, tokens, "grace"), loop_of(crook)

    async def damage(tx: Tx) -> None:
        await tx.run(
            "UPDATE identity_sessions SET sealed = :noise WHERE identity_id IN"
            " (SELECT id FROM identities WHERE subject = 'ada')",
            noise=b"not what was encrypted",
        )

    await crook.application.server.db.write(damage)
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await loop.step() == 2
    assert (await is_in(ada), await is_in(grace)) == (False, True), "one ends, and the other one was asked about"
    assert tokens.used == 1
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await loop.step() == 1
    assert await is_in(grace)


async def test_a_server_that_stops_keeps_the_answers_that_it_has_asked_for(
    crook: Crook, tokens: RotatingTokens, database_clock: ShiftedClock
) -> None:
    grace, loop = await log_in(crook, tokens, "grace"), loop_of(crook)
    database_clock.advance(REFRESH_SECONDS + 1)
    crook.issuer.open.clear()
    crook.issuer.is_asked.clear()
    running = asyncio.create_task(loop.run())
    await asyncio.to_thread(crook.issuer.is_asked.wait, 20)
    running.cancel()
    await asyncio.sleep(0)
    crook.issuer.open.set()
    await asyncio.wait([running], timeout=10)
    assert running.cancelled()
    assert tokens.used == 1
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await loop_of(crook).step() == 1
    assert await is_in(grace)


async def test_a_short_outage_of_the_database_loses_no_answer(
    crook: Crook, tokens: RotatingTokens, database_clock: ShiftedClock
) -> None:
    grace, db = await log_in(crook, tokens, "grace"), crook.application.server.db

    class AwayAfterTheAnswer:
        """The database, which refuses to save the refresh token at first, and later what the answer says."""

        writes = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(db, name)

        async def write(self, work: Work[T]) -> T:
            self.writes += tokens.used
            if self.writes in (1, 3):
                raise Unavailable("the database does not answer")
            return await db.write(work)

    database_clock.advance(REFRESH_SECONDS + 1)
    away = AwayAfterTheAnswer()
    assert await loop_of(crook, away).step() == 1  # type: ignore[arg-type]
    assert away.writes == 3
    database_clock.advance(CLAIM_SECONDS + 1)
    assert await loop_of(crook).step() == 1
    assert await is_in(grace)
