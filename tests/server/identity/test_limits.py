"""Limits that count failures."""

import pytest

from terracrew.errors import RateLimited
from terracrew.server.identity import limits
from terracrew.server.identity.limits import DRAIN_SECONDS, FAILURES, Limits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_failures_count() -> None:
    it = Limits(Clock())
    for _ in range(1000):
        it.check("a")
    for _ in range(FAILURES):
        it.check("a")
        it.failed("a")
    with pytest.raises(RateLimited):
        it.check("a")
    it.check("b")
    with pytest.raises(RateLimited):
        it.check("b", "a")


def test_who_waits_as_long_as_told_may_try_again() -> None:
    clock = Clock()
    it = Limits(clock)
    for _ in range(FAILURES * 3):
        it.failed("a")
    with pytest.raises(RateLimited) as error:
        it.check("a")
    clock.now += error.value.details["retry_after"]
    it.check("a")
    it.failed("a")
    with pytest.raises(RateLimited):
        it.check("a")
    clock.now += DRAIN_SECONDS * FAILURES
    for _ in range(FAILURES):
        it.check("a")
        it.failed("a")


def test_what_is_remembered_is_bounded_and_who_fails_often_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEYS", 100)
    it = Limits(Clock())
    for number in range(1000):
        it.failed("attacker", f"name {number}")
    assert len(it) == 100
    with pytest.raises(RateLimited):
        it.check("attacker")
