"""Properties of the function that decides how many instances are started."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.server.deployments.model import ScaleLimits, Supplied, free_slots, instances_to_start

pytestmark = pytest.mark.feature("W3.scale")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@st.composite
def _limits(draw: st.DrawFn) -> ScaleLimits:
    most = draw(st.integers(1, 12))
    return ScaleLimits(draw(st.integers(0, most)), most, draw(st.integers(1, 5)))


INSTANCES = st.lists(
    st.one_of(
        st.sampled_from(("wanted", "starting", "leaving", "ended")).map(Supplied),
        st.integers(0, 5).map(lambda free: Supplied("running", free)),
    ),
    max_size=12,
)
QUEUED = st.integers(0, 60)


def _start(queued: int, instances: list[Supplied], limits: ScaleLimits) -> int:
    return instances_to_start(queued, instances, limits, None, NOW)


def _live(instances: list[Supplied]) -> int:
    return sum(each.status != "ended" for each in instances)


@given(QUEUED, INSTANCES, _limits())
def test_it_never_starts_more_than_there_may_be(queued: int, instances: list[Supplied], limits: ScaleLimits) -> None:
    started = _start(queued, instances, limits)
    assert started >= 0
    assert started == 0 or _live(instances) + started <= limits.max_instances


@given(QUEUED, INSTANCES, _limits())
def test_it_starts_none_while_the_supply_is_enough(queued: int, instances: list[Supplied], limits: ScaleLimits) -> None:
    staying = sum(each.status in ("wanted", "starting", "running") for each in instances)
    if free_slots(instances, limits.capacity) >= queued and staying >= limits.min_instances:
        assert _start(queued, instances, limits) == 0


@given(QUEUED, st.integers(0, 20), INSTANCES, _limits())
def test_more_jobs_never_lead_to_fewer_instances(
    queued: int, more: int, instances: list[Supplied], limits: ScaleLimits
) -> None:
    assert _start(queued, instances, limits) <= _start(queued + more, instances, limits)


@given(INSTANCES, _limits())
def test_it_starts_none_without_jobs_if_it_may_sleep(instances: list[Supplied], limits: ScaleLimits) -> None:
    if limits.min_instances == 0:
        assert _start(0, instances, limits) == 0


@given(QUEUED, INSTANCES, _limits(), st.floats(-100, 100))
def test_a_refusal_is_respected_until_its_time(
    queued: int, instances: list[Supplied], limits: ScaleLimits, seconds: float
) -> None:
    found = instances_to_start(queued, instances, limits, NOW + timedelta(seconds=seconds), NOW)
    assert found == (0 if NOW + timedelta(seconds=seconds) > NOW else _start(queued, instances, limits))


@given(QUEUED, INSTANCES, _limits())
def test_what_was_started_is_enough(queued: int, instances: list[Supplied], limits: ScaleLimits) -> None:
    """A second server, or the next round, starts nothing more for the same jobs."""
    after = instances + [Supplied("wanted")] * _start(queued, instances, limits)
    assert _start(queued, after, limits) == 0


@given(QUEUED, INSTANCES, _limits())
def test_every_job_gets_a_slot_unless_the_runner_is_as_large_as_it_may_be(
    queued: int, instances: list[Supplied], limits: ScaleLimits
) -> None:
    after = instances + [Supplied("starting")] * _start(queued, instances, limits)
    assert free_slots(after, limits.capacity) >= queued or _live(after) >= limits.max_instances


@given(QUEUED, INSTANCES, _limits())
def test_it_starts_no_instance_that_would_be_idle(queued: int, instances: list[Supplied], limits: ScaleLimits) -> None:
    started = _start(queued, instances, limits)
    fewer = instances + [Supplied("wanted")] * (started - 1)
    staying = sum(each.status in ("wanted", "starting", "running") for each in fewer)
    if started and staying >= limits.min_instances:
        assert free_slots(fewer, limits.capacity) < queued
