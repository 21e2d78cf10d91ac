"""Waves: one runner first, growing numbers after it, and never all runners of a group at once."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.server.rollouts.planning import WaveCandidate, divide

pytestmark = pytest.mark.feature("V2.rollouts")
GROUPS = st.lists(st.sampled_from(["", "net", "pay", "pay/prod", "data"]), max_size=60)


def candidates(groups: list[str]) -> list[WaveCandidate]:
    return [WaveCandidate(f"rnr_{number}", f"{group}/r{number}".lstrip("/")) for number, group in enumerate(groups)]


@given(GROUPS)
def test_each_runner_is_in_one_wave_and_no_group_is_updated_all_at_once(groups: list[str]) -> None:
    runners = candidates(groups)
    waves = divide(runners)
    assert sorted(each for wave in waves for each in wave) == sorted(each.runner_id for each in runners)
    assert all(1 <= len(wave) <= 2**number for number, wave in enumerate(waves))
    group_of = {each.runner_id: each.group for each in runners}
    sizes = Counter(group_of.values())
    for wave in waves:
        for group, count in Counter(group_of[each] for each in wave).items():
            assert count < sizes[group] or sizes[group] == 1, f"all runners of {group} are in one wave"


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_the_runners_does_not_matter(groups: list[str], random: object) -> None:
    runners = candidates(groups)
    mixed = list(runners)
    random.shuffle(mixed)  # pyright: ignore
    assert divide(mixed) == divide(runners)


def test_a_hundred_runners_of_one_group_take_seven_waves() -> None:
    assert [len(wave) for wave in divide(candidates([""] * 100))] == [1, 2, 4, 8, 16, 32, 37]


def test_the_first_is_of_the_largest_group_and_two_of_a_group_are_in_two_waves() -> None:
    runners = [WaveCandidate(path, path) for path in ("a/solo", "b/one", "b/two", "b/three", "c/one", "c/two")]
    assert divide(runners) == [["b/one"], ["b/three", "c/one"], ["b/two", "c/two", "a/solo"]]
