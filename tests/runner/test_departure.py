"""When attempts are interrupted before the end of their runner, and what people are told of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.protocol.start import INTERRUPT_SECONDS
from terracrew.runner import departure
from terracrew.runner.departure import Departure, Departures, Stop

NOON = 1_731_931_200.0


@given(st.floats(min_value=1, max_value=86_400))
def test_an_engine_that_does_not_end_is_killed_early_enough_to_be_reported(stop_seconds: float) -> None:
    first, second = departure.interrupt_seconds(stop_seconds)
    assert first <= INTERRUPT_SECONDS[0]
    assert second <= INTERRUPT_SECONDS[1]
    at = departure.interrupt_at(Departure("SIGTERM", 0.0, stop_seconds, "runner"), stop_seconds)
    assert at is not None
    assert at > 0
    left = stop_seconds - at - first - second
    assert left == pytest.approx(min(departure.DELIVERY_SECONDS, stop_seconds / 6))


def test_on_fargate_a_job_has_twenty_seconds_to_end_by_itself() -> None:
    assert departure.interrupt_seconds(110) == INTERRUPT_SECONDS
    assert departure.interrupt_at(Departure("SIGTERM", NOON, NOON + 110, "runner"), 110) == NOON + 20
    assert departure.interrupt_at(Departure("SIGTERM", NOON, None, "runner"), None) is None


@pytest.mark.feature("O2.notices")
def test_the_reason_says_what_announced_the_end_and_how_long_before() -> None:
    spot = Departure("spot notice", NOON + 250, NOON + 370)
    assert departure.cause(spot) == "its machine was taken away: spot notice at 12:04 UTC, 2 m 00 s before"
    assert departure.cause(Departure("SIGTERM", NOON, NOON + 110, "runner")) == (
        "its runner had to end: SIGTERM at 12:00 UTC, 1 m 50 s before"
    )


def test_the_end_that_comes_first_counts_and_a_withdrawn_one_does_not() -> None:
    known, changes = Departures(), list[Departure | None]()
    known.on_change = lambda: changes.append(known.current)
    rebalance, spot = Departure("rebalance recommendation", NOON, None), Departure("spot notice", NOON + 9, NOON + 129)
    signal = Departure("SIGTERM", NOON + 10, NOON + 120, "runner")
    known.announce("ec2", rebalance)
    known.announce("ec2", rebalance)
    known.announce("ec2", spot)
    known.announce("signal", signal)
    known.announce("ec2", None)
    assert changes == [rebalance, spot, signal, signal]


def test_without_a_time_the_second_signal_exits_and_with_one_it_interrupts_first() -> None:
    waiting, bounded = Stop(), Stop(110)
    for _ in range(2):
        waiting.request("SIGTERM")
        bounded.request("SIGTERM")
    assert (waiting.exit.is_set(), waiting.is_hurried) == (True, False)
    assert (bounded.exit.is_set(), bounded.is_hurried) == (False, True)
    bounded.request("SIGTERM")
    assert bounded.exit.is_set()
