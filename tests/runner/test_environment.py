"""Engines get the runner's environment without the variables of Terracrew, and beside a server only a few of its variables."""

import pytest

from terracrew.executor.engines import memory
from terracrew.runner import environment

CHOSEN = {"GOGC": "50", "GOMEMLIMIT": "1GiB"}
GIVEN = {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "secret", "TERRACREW_MASTER_KEY": "secret"}


@pytest.mark.feature("J10.collector")
@pytest.mark.parametrize("is_built_in", [True, False])
@pytest.mark.parametrize("name", list(CHOSEN))
def test_what_the_owner_chose_for_the_collector_reaches_engines(name: str, is_built_in: bool) -> None:
    found = environment.for_engines(GIVEN | {name: CHOSEN[name]}, is_built_in=is_built_in)
    assert found[name] == CHOSEN[name]
    assert memory.collector_environment(found, 4000) == {}


def test_engines_beside_a_server_get_none_of_its_secrets() -> None:
    assert environment.for_engines(GIVEN, is_built_in=True) == {"PATH": "/bin"}
    assert "TERRACREW_MASTER_KEY" not in environment.for_engines(GIVEN, is_built_in=False)


def test_a_pattern_names_what_engines_beside_a_server_get_and_never_a_variable_of_terracrew() -> None:
    found = environment.for_engines(GIVEN, is_built_in=True, patterns=["AWS_*", "TERRACREW_*"])
    assert found == {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "secret"}
