"""However many requests come at once, AWS gets no more than its buckets hold."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.clouds.aws.api import Pacer

ACTIONS = ["ecs:RunTask", "ecs:StopTask", "ecs:DescribeTasks", "ecs:RegisterTaskDefinition"]


def is_accepted(times: Sequence[float], burst: float, a_second: float) -> bool:
    """Whether a bucket of AWS, full at first, accepts requests at these times."""
    left, last = burst, 0.0
    for each in sorted(times):
        left = min(burst, left + (each - last) * a_second) - 1
        last = each
        if left < -1e-6:
            return False
    return True


@given(st.lists(st.tuples(st.floats(0, 0.2), st.sampled_from(ACTIONS)), max_size=400))
def test_no_storm_of_requests_is_throttled(storm: list[tuple[float, str]]) -> None:
    now, sent = 0.0, dict[str, list[float]]({each: [] for each in ACTIONS})
    pacer = Pacer(lambda: now)
    for pause, action in storm:
        now += pause
        sent[action].append(now + pacer.reserve(action))
    assert is_accepted(sent["ecs:RunTask"], 100, 20)
    assert is_accepted(sent["ecs:RunTask"] + sent["ecs:StopTask"], 100, 40)
    assert is_accepted(sent["ecs:DescribeTasks"], 100, 20)
    assert is_accepted(sent["ecs:RegisterTaskDefinition"], 20, 1)


def test_the_first_requests_do_not_wait_and_others_wait_their_turn() -> None:
    pacer = Pacer(lambda: 0.0)
    waits = [pacer.reserve("ecs:RunTask") for _ in range(160)]
    assert waits[:80] == [0.0] * 80
    assert waits[-1] == pytest.approx(80 / 16)
    assert pacer.reserve("ecs:DescribeTasks") == 0.0
    assert pacer.reserve("iam:GetRole") == 0.0
