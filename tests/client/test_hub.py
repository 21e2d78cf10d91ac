"""The back-off of those who lost their server."""

import pytest

from terracrew.client.hub import LONGEST_DELAY, PROMPT, Backoff
from terracrew.errors import RateLimited, Unavailable, Unreachable


@pytest.mark.feature("O1", "O6")
def test_a_fleet_that_lost_its_server_comes_back_spread_over_the_whole_time() -> None:
    """Five thousand that have tried in vain for a while: no second gets many more than its share."""
    arrivals: list[float] = []
    for _ in range(5_000):
        backoff, at = Backoff(), 0.0
        while at < 60:
            at += backoff.next(Unreachable("refused"))
        arrivals.append(at - 60)
    assert max(arrivals) < LONGEST_DELAY
    busiest = max(sum(second <= at < second + 1 for at in arrivals) for second in range(int(LONGEST_DELAY)))
    assert busiest < 3 * len(arrivals) / LONGEST_DELAY


@pytest.mark.feature("O6")
def test_a_server_whose_database_is_away_is_asked_again_soon_and_one_that_says_how_long_not_before() -> None:
    backoff = Backoff(1.0, 60.0)
    for _ in range(10):
        assert backoff.next(Unavailable("the database is away")) <= PROMPT
    busy = Unavailable("too many clients", retry_after=8.0)
    assert max(backoff.next(busy) for _ in range(200)) > PROMPT, "a busy server says how long to stay away"
    assert backoff.next(RateLimited("too many failures", retry_after=30.0)) >= 30
    backoff.reset()
    assert backoff.next() <= 1.0
