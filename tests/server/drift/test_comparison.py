"""What is told about a check: the difference from the one before."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.api.drift import DriftChange
from terracrew.plan_diff.model import AttributeDiff, ResourceDiff
from terracrew.server.drift import model
from terracrew.server.drift.model import Findings, Found

pytestmark = pytest.mark.feature("M2.difference")
MONDAY = datetime(2026, 11, 16, 3, tzinfo=UTC)
TUESDAY, WEDNESDAY = MONDAY + timedelta(days=1), MONDAY + timedelta(days=2)


def changed(address: str, after: str = "2", **more: Any) -> ResourceDiff:
    return ResourceDiff(address, "update", attributes=[AttributeDiff("size", "update", "1", after, **more)])


def after(*checks: tuple[list[ResourceDiff], datetime], muted: set[str] | None = None) -> model.Comparison:
    """The last of these checks, compared with the one before."""
    compared = model.Comparison([], [])
    for resources, at in checks:
        before = {each.address: each for each in compared.items}
        compared = model.compare("mod_1", before, model.findings(resources), muted or set(), at)
    return compared


def test_what_differs_for_the_first_time_is_new_and_the_same_again_is_quiet() -> None:
    first = after(([changed("a.b")], MONDAY))
    assert first.differences == [DriftChange("a.b", "new", "update")]
    second = after(([changed("a.b")], MONDAY), ([changed("a.b")], TUESDAY))
    assert (second.differences, [each.since for each in second.items]) == ([], [MONDAY])


def test_another_difference_of_the_same_address_is_changed_and_keeps_since_when_it_differs() -> None:
    found = after(([changed("a.b")], MONDAY), ([changed("a.b", "3")], TUESDAY))
    assert found.differences == [DriftChange("a.b", "changed", "update")]
    assert [(each.since, each.changed_at) for each in found.items] == [(MONDAY, TUESDAY)]


def test_what_does_not_differ_any_more_is_gone_and_new_when_it_returns() -> None:
    gone = after(([changed("a.b")], MONDAY), ([], TUESDAY))
    assert (gone.items, gone.differences) == ([], [DriftChange("a.b", "gone", "update")])
    back = after(([changed("a.b")], MONDAY), ([], TUESDAY), ([changed("a.b")], WEDNESDAY))
    assert [each.kind for each in back.differences] == ["new"]


def test_what_is_muted_is_remembered_and_not_told() -> None:
    found = after(([changed("a.b"), changed("c.d")], MONDAY), muted={"a.b"})
    assert [each.address for each in found.differences] == ["c.d"]
    assert [each.address for each in found.items] == ["a.b", "c.d"]
    assert after(([changed("a.b")], MONDAY), ([], TUESDAY), muted={"a.b"}).differences == []


def test_an_incomplete_check_takes_nothing_back() -> None:
    before = {each.address: each for each in after(([changed("a.b"), changed("c.d")], MONDAY)).items}
    found = model.compare("mod_1", before, Findings({"c.d": Found("delete", "x")}, is_complete=False), set(), TUESDAY)
    assert [(each.address, each.kind) for each in found.differences] == [("c.d", "changed")]
    assert [each.address for each in found.items] == ["c.d", "a.b"]


def test_a_data_source_that_is_read_is_no_difference() -> None:
    assert model.findings([ResourceDiff("data.a.b", "read")]).addresses == {}


def test_an_address_that_was_changed_and_is_planned_is_one_and_differs_by_both() -> None:
    both = model.findings([changed("a.b"), ResourceDiff("a.b", "update")]).addresses
    one = model.findings([changed("a.b")]).addresses
    assert list(both) == ["a.b"]
    assert both != one


def test_a_leftover_object_is_an_address_of_its_own() -> None:
    found = model.findings([changed("a.b"), ResourceDiff("a.b", "delete", deposed="1f")])
    assert list(found.addresses) == ["a.b", "a.b (deposed 1f)"]


def test_the_reason_and_what_is_unchanged_make_no_difference() -> None:
    plain = changed("a.b")
    said = ResourceDiff("a.b", "update", why="because", unchanged=7, attributes=plain.attributes)
    assert model.findings([plain]) == model.findings([said])


ADDRESSES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), max_size=6)


@given(ADDRESSES, ADDRESSES, st.sets(st.sampled_from("abcdef")))
def test_the_told_differences_are_exactly_those_between_two_checks(
    one: dict[str, str], two: dict[str, str], muted: set[str]
) -> None:
    def found(digests: dict[str, str]) -> Findings:
        return Findings({address: Found("update", digest) for address, digest in digests.items()})

    before = {each.address: each for each in model.compare("m", {}, found(one), set(), MONDAY).items}
    compared = model.compare("m", before, found(two), muted, TUESDAY)
    assert {each.address: each.digest for each in compared.items} == two
    wanted = dict.fromkeys(two.keys() - one.keys(), "new")
    wanted |= dict.fromkeys(one.keys() - two.keys(), "gone")
    wanted |= {address: "changed" for address in two.keys() & one.keys() if one[address] != two[address]}
    assert {each.address: each.kind for each in compared.differences} == {
        address: kind for address, kind in wanted.items() if address not in muted
    }


@pytest.mark.feature("M2.quiet")
def test_checks_get_a_share_of_the_slots_and_at_least_one() -> None:
    assert [model.share(slots, 25) for slots in (0, 1, 4, 7, 8, 100)] == [1, 1, 1, 1, 2, 25]


@pytest.mark.feature("M2.quiet")
def test_checks_are_spread_evenly_over_their_window() -> None:
    delays = [model.delay_seconds(f"mod_{number}", 3600) for number in range(1_000)]
    counts = [sum(start <= each < start + 600 for each in delays) for start in range(0, 3600, 600)]
    assert sum(counts) == 1_000
    assert min(counts) > 120
    assert model.delay_seconds("mod_1", 3600) == delays[1]
