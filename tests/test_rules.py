"""The explorer, the stateful test and the storm each check every rule, or say why they cannot."""

import inspect
import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from tests.chaos import catalogue as chaos
from tests.chaos import checks
from tests.explore import catalogue as explore
from tests.explore import rules as explored
from tests.explore.moves import WORDS
from tests.rules import Checks, Rules
from tests.stateful import catalogue as stateful
from tests.stateful import rules as stated
from tests.stateful.simulated_connection import SimulatedConnection
from tests.stateful.simulated_executor import Executor
from tests.stateful.simulated_runners import SimulatedRunners
from tests.stateful.simulation import Simulation

INSTRUMENTS: dict[str, Checks] = {"explore": explore.CHECKS, "stateful": stateful.CHECKS, "chaos": chaos.CHECKS}


def functions(instrument: str) -> list[tuple[Rules, Callable[..., Any]]]:
    found = INSTRUMENTS[instrument].items()
    return [(rule, check) for rule, several in found if not isinstance(several, str) for check in several]


@pytest.mark.parametrize("instrument", INSTRUMENTS)
@pytest.mark.parametrize("rule", Rules, ids=lambda rule: rule.value.name)
def test_every_rule_is_checked_or_it_says_why_not(instrument: str, rule: Rules) -> None:
    found = INSTRUMENTS[instrument][rule]
    assert found
    if isinstance(found, str):
        for module in re.findall(r"tests(?:\.\w+)+", found):
            assert find_spec(module), f"{module} checks {rule.value.name} instead, and is missing"


def test_the_rules_are_numbered_as_in_the_design() -> None:
    assert [rule.value.number for rule in Rules] == [*range(1, 12)]


def test_the_explorer_asks_after_every_rule_and_after_nothing_else() -> None:
    asked = {check for name in WORDS for check in explored.about(name)} | {explored.is_settled}
    assert {check for _, check in functions("explore")} == asked
    for rule, check in functions("explore"):
        assert (check.__doc__ or "").startswith(f"Rule {rule.value.number}"), check.__name__


@pytest.mark.parametrize(
    ("instrument", "callers"),
    [
        ("stateful", [stated.check, Simulation.check, SimulatedRunners.witness, SimulatedConnection, Executor]),
        ("chaos", [checks.violations]),
    ],
)
def test_every_check_of_the_catalogue_is_called(instrument: str, callers: list[Any]) -> None:
    source = "".join(inspect.getsource(caller) for caller in callers)
    for _, check in functions(instrument):
        assert re.search(rf"\b{check.__name__}\(", source), f"nobody calls {check.__name__}"
