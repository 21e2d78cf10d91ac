"""A limit counts failures, not attempts, and stays small in memory."""

import pytest

from terracrew.errors import RateLimited
from terracrew.server.identity import limits
from terracrew.server.identity.limits import Limit, Limits

FEW = Limit("few", 10, 30.0)
MANY = Limit("many", 100, 1.0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_failures_count() -> None:
    it = Limits(Clock())
    for _ in range(1000):
        it.attempt(FEW.of("a")).refund()
    for _ in range(FEW.failures):
        it.attempt(FEW.of("a"))
    with pytest.raises(RateLimited):
        it.attempt(FEW.of("a"))
    it.attempt(FEW.of("b"))
    with pytest.raises(RateLimited):
        it.attempt(FEW.of("b"), FEW.of("a"))


def test_attempts_that_run_at_the_same_time_share_the_limit() -> None:
    it = Limits(Clock())
    attempts = [it.attempt(FEW.of("a")) for _ in range(FEW.failures)]
    with pytest.raises(RateLimited):
        it.attempt(FEW.of("a"))
    attempts[0].refund()
    attempts[0].refund()
    it.attempt(FEW.of("a"))
    with pytest.raises(RateLimited):
        it.attempt(FEW.of("a"))


def test_an_attempt_that_is_refused_by_one_key_is_counted_by_none() -> None:
    it = Limits(Clock())
    for _ in range(FEW.failures):
        it.attempt(FEW.of("a"))
    for _ in range(1000):
        with pytest.raises(RateLimited):
            it.attempt(FEW.of("a"), MANY.of("all"))
    for _ in range(MANY.failures):
        it.attempt(MANY.of("all"))


def test_who_waits_as_long_as_told_may_try_again() -> None:
    clock = Clock()
    it = Limits(clock)
    for _ in range(FEW.failures):
        it.attempt(FEW.of("a"))
    with pytest.raises(RateLimited) as error:
        it.attempt(FEW.of("a"))
    clock.now += error.value.details["retry_after"]
    it.attempt(FEW.of("a"))
    with pytest.raises(RateLimited):
        it.attempt(FEW.of("a"))
    clock.now += FEW.drain_seconds * FEW.failures
    for _ in range(FEW.failures):
        it.attempt(FEW.of("a"))


def test_what_is_remembered_is_bounded_and_who_fails_often_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_KEYS", 100)
    it = Limits(Clock())
    for number in range(MANY.failures):
        it.attempt(MANY.of("attacker"), FEW.of(f"name {number}"))
    for number in range(1000):
        it.attempt(FEW.of(f"other {number}")).refund()
    assert len(it) <= 100
    with pytest.raises(RateLimited):
        it.attempt(MANY.of("attacker"))
