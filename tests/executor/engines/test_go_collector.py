"""Engines and providers are programs in Go, and their collector is set for short-lived processes."""

from pathlib import Path

import pytest

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor.engines import contract, memory
from terracrew.executor.engines.contract import ApiAccess, EngineContext
from terracrew.toolchains.discovery import FoundEngine


@pytest.mark.feature("J10.collector")
def test_a_process_may_use_seventy_per_cent_more_memory_than_by_default() -> None:
    added = memory.collector_environment({"PATH": "/bin"}, None)
    assert set(added) == {"GOGC"}
    assert 100 + int(added["GOGC"]) <= 1.7 * (100 + 100)


@pytest.mark.feature("J10.collector")
def test_a_process_stays_below_the_memory_limit_of_its_attempt() -> None:
    assert memory.collector_environment({}, 1000)["GOMEMLIMIT"] == "500MiB"


@pytest.mark.feature("J10.collector")
def test_a_process_with_very_little_memory_collects_as_by_default() -> None:
    assert memory.collector_environment({}, 199) == {}
    assert memory.collector_environment({}, 200)["GOMEMLIMIT"] == "100MiB"


@pytest.mark.feature("J10.collector")
def test_an_engine_and_providers_with_little_memory_together_collect_as_by_default() -> None:
    """Each of them stays below its own limit, but not all of them together below that of the attempt. A large provider would collect
    all the time near a low limit, and be slower than by default."""
    assert memory.collector_environment({}, 1199, providers=2) == {}
    assert memory.collector_environment({}, 1200, providers=2)["GOMEMLIMIT"] == "600MiB"
    assert memory.collector_environment({}, 799, providers=1) == {}
    assert memory.collector_environment({}, 800, providers=1)["GOMEMLIMIT"] == "400MiB"


@pytest.mark.feature("J10.collector")
def test_the_lock_file_says_how_many_providers_there_are(tmp_path: Path) -> None:
    files = EngineDirectory(tmp_path / "engine")
    files.make()
    context = EngineContext(tmp_path, files, tmp_path / "cache", {}, memory_mb=1000)
    session = contract.engine_named("tofu").open(FoundEngine("tofu", "/usr/bin/tofu", "1.12.6"), context)
    assert session.environment({}, ApiAccess("http://server", "token"))["GOMEMLIMIT"] == "500MiB"
    names = [f'provider "contract.opentofu.org/hashicorp/{name}" {{\n  version = "1.0.0"\n}}\n' for name in ("a", "b")]
    (tmp_path / ".terraform.lock.hcl").write_text("".join(names))
    assert "GOGC" not in session.environment({}, ApiAccess("http://server", "token"))


@pytest.mark.feature("J10.collector")
@pytest.mark.parametrize("chosen", [{"GOGC": "50"}, {"GOMEMLIMIT": "1GiB"}])
def test_what_the_owner_or_the_module_chose_is_not_changed(chosen: dict[str, str]) -> None:
    assert memory.collector_environment(chosen, 1000) == {}
