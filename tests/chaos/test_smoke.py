"""A short chaos run of half a minute: real processes, and faults whose outcome is known soon. `make chaos` is the whole run."""

from pathlib import Path

import pytest

from tests.chaos.installation import Plan
from tests.chaos.run import run
from tests.thoroughness import thorough

_QUICK = (
    "kill server",
    "kill runner",
    "kill executor",
    "kill engine",
    "kill zygote",
    "reboot host",
    "stop runner",
    "stop executor",
    "stop host",
    "term server",
    "term runner",
    "partition, held",
    "partition, closed",
    "database restart, fast",
    "database restart, immediate",
)


@thorough
@pytest.mark.feature("O1.continues", "O3.doubt", "O6.restart")
@pytest.mark.engine
@pytest.mark.timeout(200)
@pytest.mark.parametrize("database", [pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_short_storm_costs_no_job_no_line_no_state_and_no_lock(tmp_path: Path, database: str) -> None:
    plan = Plan(
        database=database,
        servers=2,
        runners=4,
        small_disks=0,
        modules=8,
        real_modules=1,
        busy=6,
        storm_seconds=15,
        settle_seconds=60,
        longest=6,
        slowest=4,
        every=1.0,
        faults=_QUICK,
    )
    outcome = run(plan, tmp_path)
    assert not outcome.violations, outcome.text
    assert any(job["status"] == "SUCCEEDED" for job in outcome.found.jobs), outcome.text
