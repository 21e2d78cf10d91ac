"""Random orders of everything that can happen, on both databases; the rules of the product are looked at after each step.

A longer run, another one each time: `TERRACREW_STATEFUL_EXAMPLES=400 pytest -s tests/stateful/test_machine.py`; what fails is then
kept and, with `TERRACREW_STATEFUL_SHRINK=1`, made as short as can be, which takes its time.
"""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.postgres_server import PostgresServer
from tests.stateful.examples import EXAMPLES
from tests.stateful.machine import Machine
from tests.thoroughness import examples as tried

SHRINK = bool(os.environ.get("TERRACREW_STATEFUL_SHRINK"))
STEPS = 50
EXPECTED = {
    "begun",
    "fenced",
    "kept plan applied",
    "mutates",
    "attempt lost",
    "attempt waiting",
    "state superseded",
    "granted when created",
}
"""What has to come about: where it does not, nothing was tested."""


def explore(machine: type[Machine], examples: int) -> None:
    machine.done, machine.seen, machine.is_shrunk = Counter(), Counter(), SHRINK
    repeatable = settings(derandomize=True, database=None, phases=[Phase.generate])
    random = settings(phases=[Phase.reuse, Phase.generate, *([Phase.shrink] if SHRINK else [])])
    run_state_machine_as_test(
        machine,
        settings=settings(
            random if EXAMPLES else repeatable,
            max_examples=EXAMPLES or examples,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
            print_blob=False,
        ),
    )
    for counted in (machine.done, machine.seen):
        print(f"\n{counted.total()}:", ", ".join(f"{what} {count}" for what, count in sorted(counted.items())))
    assert machine.done.total() >= examples * STEPS
    assert not EXPECTED - (+machine.seen).keys()


@pytest.mark.feature("J8.same", "J15.kept", "O1.continues", "O3.doubt", "O5.capped", "O6.database")
@pytest.mark.timeout(0 if EXAMPLES else 300)
def test_nothing_that_happens_in_any_order_breaks_a_rule_on_sqlite(on_sqlite: type[Machine]) -> None:
    explore(on_sqlite, tried(20))
    assert on_sqlite.seen["plan of another job applied"], "it is rare, and the other run is shorter"


@pytest.mark.postgres
@pytest.mark.feature("J8.same", "J15.kept", "O1.continues", "O3.doubt", "O5.capped", "O6.database")
@pytest.mark.timeout(0 if EXAMPLES else 300)
def test_nothing_that_happens_in_any_order_breaks_a_rule_on_postgresql(
    postgres_server: PostgresServer, impatient: None
) -> None:
    class OnPostgres(Machine):
        fresh = staticmethod(postgres_server.database)

    explore(OnPostgres, tried(8))
