"""Runs one hour of the simulated day; `make day` runs all of it."""

import asyncio
from pathlib import Path

import pytest

from tests.chaos import day


@pytest.mark.feature("O3.lease")
@pytest.mark.timeout(120)
def test_leases_run_out_and_nothing_breaks_in_simulated_time(tmp_path: Path) -> None:
    with day.impatient():
        lived = asyncio.run(day.live(f"sqlite:///{tmp_path / 'terracrew.db'}", 1, seed=1))
    assert lived.leases > 0
    assert lived.shortest_lease_seconds >= day.LEASE_SECONDS
