"""A limit counts failures, not attempts, and stays small in memory."""

import pytest

from terracrew.errors import RateLimited
from terracrew.server.identity import limits
from terracrew.server.identity.limits import Key, Limit, Limits
from tests.builders.clock import ManualClock

FEW = Limit("few", 10, 30.0)
MANY = Limit("many", 100, 1.0)


def fail(it: Limits, limit: Limit, name: str) -> None:
    """Use up a limit."""
    for _ in range(limit.failures):
        it.attempt(limit.of(name))


def refused(it: Limits, *keys: Key) -> int:
    """Return after how many seconds a refused attempt may be repeated."""
    with pytest.raises(RateLimited) as error:
        it.attempt(*keys)
    return error.value.details["retry_after"]


def test_only_failures_count() -> None:
    it = Limits(ManualClock(0.0))
    for _ in range(1000):
        it.attempt(FEW.of("a")).refund()
    fail(it, FEW, "a")
    refused(it, FEW.of("a"))
    it.attempt(FEW.of("b"))
    refused(it, FEW.of("b"), FEW.of("a"))


def test_attempts_that_run_at_the_same_time_share_the_limit() -> None:
    it = Limits(ManualClock(0.0))
    attempts = [it.attempt(FEW.of("a")) for _ in range(FEW.failures)]
    refused(it, FEW.of("a"))
    attempts[0].refund()
    attempts[0].refund()
    it.attempt(FEW.of("a"))
    refused(it, FEW.of("a"))


def test_an_attempt_that_is_refused_by_one_key_is_counted_by_none() -> None:
    it = Limits(ManualClock(0.0))
    fail(it, FEW, "a")
    for _ in range(1000):
        refused(it, FEW.of("a"), MANY.of("all"))
    fail(it, MANY, "all")


def test_who_waits_as_long_as_told_may_try_again() -> None:
    clock = ManualClock(0.0)
    it = Limits(clock)
    fail(it, FEW, "a")
    clock.advance(refused(it, FEW.of("a")))
    it.attempt(FEW.of("a"))
    refused(it, FEW.of("a"))
    clock.advance(FEW.drain_seconds * FEW.failures)
    fail(it, FEW, "a")


def test_what_is_remembered_is_bounded_and_who_fails_often_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_KEYS", 100)
    it = Limits(ManualClock(0.0))
    for number in range(MANY.failures):
        it.attempt(MANY.of("attacker"), FEW.of(f"name {number}"))
    for number in range(1000):
        it.attempt(FEW.of(f"other {number}")).refund()
    assert len(it) <= 100
    refused(it, MANY.of("attacker"))
