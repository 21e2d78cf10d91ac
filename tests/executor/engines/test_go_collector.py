"""Engines and providers are programs in Go, and their collector is set for short-lived processes."""

import pytest

from terracrew.executor.engines import go_collector


@pytest.mark.feature("J10.collector")
def test_a_process_may_use_seventy_per_cent_more_memory_than_by_default() -> None:
    added = go_collector.environment({"PATH": "/bin"}, None)
    assert set(added) == {"GOGC"}
    assert 100 + int(added["GOGC"]) <= 1.7 * (100 + 100)


@pytest.mark.feature("J10.collector")
def test_a_process_stays_below_the_memory_limit_of_its_attempt() -> None:
    assert go_collector.environment({}, 1000)["GOMEMLIMIT"] == "500MiB"


@pytest.mark.feature("J10.collector")
def test_a_process_with_very_little_memory_collects_as_by_default() -> None:
    assert go_collector.environment({}, 199) == {}
    assert go_collector.environment({}, 200)["GOMEMLIMIT"] == "100MiB"


@pytest.mark.feature("J10.collector")
@pytest.mark.parametrize("chosen", [{"GOGC": "50"}, {"GOMEMLIMIT": "1GiB"}])
def test_what_the_owner_or_the_module_chose_is_not_changed(chosen: dict[str, str]) -> None:
    assert go_collector.environment(chosen, 1000) == {}
