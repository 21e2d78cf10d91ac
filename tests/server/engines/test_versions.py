"""Which version of an engine an instance runs for a module, and that SQL can compare the same by intervals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terracrew.errors import Invalid
from terracrew.server.engines import model
from terracrew.server.engines.model import AvailableEngines, available, installed_on_demand, resolve_version
from terracrew.source_rules import version_ranges
from tests.thoroughness import examples

pytestmark = pytest.mark.feature("J4.version", "S5.engine")
HAVE = available({"tofu": "1.12.6"}, {"tofu": ["1.12.6", "1.13.2", "1.13.0-rc1", "of no number"]}, [])


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("", "1.12.6"),
        ("1.12.6", "1.12.6"),
        ("= 1.13.2", "1.13.2"),
        ("~> 1.12", "1.13.2"),
        ("~> 1.12.0", "1.12.6"),
        (">= 1.5, < 1.13", "1.12.6"),
        (">= 1.5, < 2, != 1.13.2", "1.12.6"),
        ("1.13.0-rc1", "1.13.0-rc1"),
        (">= 1.14", None),
        ("1.12.5", None),
    ],
)
def test_the_highest_version_in_the_range_is_used_and_the_default_one_without_a_range(
    wanted: str, version: str | None
) -> None:
    assert resolve_version(HAVE, "tofu", wanted) == version
    assert HAVE.can_run("tofu", wanted) is (version is not None)


def test_an_engine_that_the_instance_does_not_have_is_not_run() -> None:
    assert not HAVE.can_run("terraform", "")
    assert not HAVE.can_run("terraform", "~> 1.5")


@pytest.mark.parametrize(
    ("engine", "wanted", "version"),
    [
        ("tofu", "", "1.12.6"),
        ("tofu", "~> 1.12", "1.12.6"),
        ("tofu", "1.13.2", "1.13.2"),
        ("tofu", ">= 1.13.1, < 2", "1.13.1"),
        ("tofu", "> 1.13.1", None),
        ("terraform", "1.5.7", "1.5.7"),
        ("terraform", "~> 1.6", None),
        ("cobol", "", None),
    ],
)
def test_a_missing_version_is_installed_only_where_that_is_allowed(
    engine: str, wanted: str, version: str | None
) -> None:
    assert installed_on_demand(engine, wanted) == version
    assert resolve_version(AvailableEngines((), frozenset({engine})), engine, wanted) == version
    assert resolve_version(AvailableEngines(), engine, wanted) is None


def test_what_an_instance_has_is_used_before_anything_is_installed() -> None:
    both = AvailableEngines(HAVE.versions, frozenset({"tofu"}))
    assert resolve_version(both, "tofu", ">= 1.12, < 2") == "1.13.2"
    assert resolve_version(both, "tofu", "1.14.0") == "1.14.0"


def test_an_older_runner_announces_one_version_of_each_engine() -> None:
    assert available({"tofu": "1.12.6"}, {}, []).versions == (("tofu", ("1.12.6",)),)


@pytest.mark.parametrize("text", ["latest", "1.x", ">> 1", "1.2.3.4", "; DROP TABLE jobs", "~> ", ">= 1.5,"])
def test_a_text_that_is_not_a_range_is_refused_with_the_name_of_the_field(text: str) -> None:
    with pytest.raises(Invalid, match=r"engine_version: .* is not a range of versions"):
        model.check_range(text)


_NUMBERS = st.tuples(*(st.integers(0, 3) for _ in range(3))).map(lambda each: ".".join(map(str, each)))
_VERSIONS = st.one_of(_NUMBERS, _NUMBERS.map(lambda each: f"{each}-rc1"), st.just("9999999.1.2"))
_WRITTEN = st.one_of(
    _VERSIONS,
    st.integers(0, 3).map(str),
    st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda each: f"{each[0]}.{each[1]}"),
)
_CONDITIONS = st.tuples(st.sampled_from(["", "=", "!=", ">", ">=", "<", "<=", "~>"]), _WRITTEN).map(" ".join)
_RANGES = st.lists(_CONDITIONS, min_size=1, max_size=4).map(", ".join)


@settings(max_examples=examples(500))
@given(_RANGES, st.lists(_NUMBERS | _NUMBERS.map(lambda each: f"{each}-rc1"), min_size=1, max_size=20))
def test_the_intervals_of_a_range_contain_the_same_versions(wanted: str, texts: list[str]) -> None:
    rows = model.intervals("tofu", wanted)
    assert rows
    assert len({each.low for each in rows}) == len(rows), "the low end is part of the key"
    for text in texts:
        version = version_ranges.parse_version(text)
        assert version is not None
        at = model.position_of(text)
        is_inside = any(str(version) == each.version or each.low <= at < each.high for each in rows)
        assert is_inside == (version in version_ranges.parse_range(wanted)), (wanted, text, rows)
