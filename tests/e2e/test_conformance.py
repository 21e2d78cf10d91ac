"""Every command of the engines' own command line does with Terracrew what it does with a local backend."""

from pathlib import Path

import pytest

from tests.e2e import conformance
from tests.e2e.system import System
from tests.thoroughness import thorough

pytestmark = pytest.mark.feature("K7")


@thorough
@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", conformance.engines())
def test_every_command_does_what_it_does_with_a_local_backend(system: System, tmp_path: Path, name: str) -> None:
    path = conformance.engines()[name]
    system.env["PATH"] = f"{Path(path).parent}:{system.env['PATH']}"
    system.start_server(runner=True)
    found = conformance.outcomes(system, path, name.split()[1], tmp_path / "prompts")
    assert [each for each in found if each.problem] == []


def test_the_page_has_every_command_and_no_difference() -> None:
    page = conformance.PAGE.read_text()
    assert page.startswith(conformance.HEAD)
    assert [each.name for each in conformance.COMMANDS if f"| `{each.name}`" not in page] == []
    assert "differs" not in page
