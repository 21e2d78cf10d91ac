"""Delays between retries, and between the rounds of a loop."""

import pytest

from terracrew import backoff as delays
from terracrew.backoff import MAX_DELAY_SECONDS, MAX_DELAY_WHEN_UNAVAILABLE_SECONDS, Backoff
from terracrew.errors import RateLimited, Unavailable, Unreachable


@pytest.mark.feature("O1.reconnect", "O6.stampede")
def test_a_fleet_that_lost_its_server_comes_back_spread_over_the_whole_time() -> None:
    """Five thousand that have tried in vain for a while: no second gets many more than its share."""
    arrivals: list[float] = []
    for _ in range(5_000):
        backoff, at = Backoff(), 0.0
        while at < 60:
            at += backoff.next(Unreachable("refused"))
        arrivals.append(at - 60)
    assert max(arrivals) < MAX_DELAY_SECONDS
    busiest = max(sum(second <= at < second + 1 for at in arrivals) for second in range(int(MAX_DELAY_SECONDS)))
    assert busiest < 3 * len(arrivals) / MAX_DELAY_SECONDS


@pytest.mark.feature("O6.stampede")
def test_a_server_whose_database_is_away_is_asked_again_soon_and_one_that_says_how_long_not_before() -> None:
    backoff = Backoff(1.0, 60.0)
    for _ in range(10):
        assert backoff.next(Unavailable("the database is away")) <= MAX_DELAY_WHEN_UNAVAILABLE_SECONDS
    busy = Unavailable("too many clients", retry_after=8.0)
    assert max(backoff.next(busy) for _ in range(200)) > MAX_DELAY_WHEN_UNAVAILABLE_SECONDS, (
        "a busy server says how long to stay away"
    )
    assert backoff.next(RateLimited("too many failures", retry_after=30.0)) >= 30
    backoff.reset()
    assert backoff.next() <= 1.0


def test_the_rounds_of_a_loop_are_spread_around_their_interval() -> None:
    intervals = [delays.jittered(60.0) for _ in range(500)]
    assert 30 <= min(intervals) < 40
    assert 80 < max(intervals) <= 90
    assert all(48 <= delays.jittered(60.0, 0.2) <= 72 for _ in range(100))
