"""Properties of giving waiting jobs to the runners that would take them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.server.cloud_hosted.demand import Waker, allot
from terracrew.server.deployments.model import ScaleLimits, Supplied
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.runners.seat_reads import Announced, FreeSeat
from terracrew.server.scheduling.assignment_view import Route
from terracrew.server.scheduling.wake_demand import WakeDemand

pytestmark = pytest.mark.feature("W3.scale")
RUNNERS = ("rnr_a", "rnr_b", "rnr_c")
TOFU = AvailableEngines((("tofu", ("1.12.6",)),))
BOTH = AvailableEngines((("pulumi", ("3.0.0",)), ("tofu", ("1.12.6",))))


@st.composite
def _wakers(draw: st.DrawFn) -> dict[str, Waker]:
    found: dict[str, Waker] = {}
    for runner_id in RUNNERS:
        most = draw(st.integers(1, 4))
        statuses = draw(st.lists(st.sampled_from(("wanted", "starting", "leaving")), max_size=most))
        engines = draw(st.sampled_from((TOFU, BOTH, None)))
        limits = ScaleLimits(0, most, draw(st.integers(1, 3)))
        found[runner_id] = Waker(limits, tuple(map(Supplied, statuses)), frozenset(), Announced(frozenset(), engines))
    return found


@st.composite
def _demands(draw: st.DrawFn) -> list[WakeDemand]:
    found: list[WakeDemand] = []
    for number in range(draw(st.integers(1, 4))):
        runners = tuple(sorted(draw(st.sets(st.sampled_from(RUNNERS), min_size=1))))
        route = Route(draw(st.sampled_from(("tofu", "pulumi"))), places=(f"place-{number}",))
        jobs = tuple(f"job-{number}-{each}" for each in range(draw(st.integers(1, 9))))
        found.append(WakeDemand(route, len(jobs), (*runners, "rnr_own"), runners, jobs))
    return found


SEATS = st.lists(
    st.builds(
        FreeSeat, st.just("rnr_own"), st.just("own"), st.just(frozenset[str]()), st.just(BOTH), st.integers(0, 5)
    ),
    max_size=2,
)


@given(_demands(), SEATS, _wakers())
def test_each_job_is_given_to_one_runner_at_most_and_none_beyond_what_it_may_start(
    demands: list[WakeDemand], seats: list[FreeSeat], wakers: dict[str, Waker]
) -> None:
    found = allot(demands, seats, wakers)
    jobs, free = sum(each.jobs for each in demands), sum(each.free for each in seats)
    assert sum(found.values()) <= max(0, jobs - free)
    for runner_id, needed in found.items():
        assert 0 < needed <= wakers[runner_id].coming_slots + wakers[runner_id].further_slots


@given(_demands(), SEATS, _wakers())
def test_a_runner_that_lacks_the_engine_of_a_job_is_not_woken_for_it(
    demands: list[WakeDemand], seats: list[FreeSeat], wakers: dict[str, Waker]
) -> None:
    wanted = [each for each in demands if each.route.engine == "pulumi"]
    for runner_id in allot(wanted, seats, wakers):
        assert wakers[runner_id].announced.engines is not TOFU


@given(_demands(), SEATS, _wakers())
def test_a_job_stays_without_a_runner_only_if_all_that_could_take_it_are_as_large_as_they_may_be(
    demands: list[WakeDemand], seats: list[FreeSeat], wakers: dict[str, Waker]
) -> None:
    found = allot(demands[:1], seats, wakers)
    [demand] = demands[:1]
    able = [
        wakers[each]
        for each in demand.wakeable
        if demand.route.engine == "tofu" or wakers[each].announced.engines is not TOFU
    ]
    room = sum(each.coming_slots + each.further_slots for each in able)
    assert sum(found.values()) == min(room, max(0, demand.jobs - sum(each.free for each in seats)))
