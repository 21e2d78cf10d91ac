"""Outputs on the command line."""

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")


def test_an_output_of_several_lines_is_one_row(terracrew: Terracrew, server: ScriptedServer) -> None:
    """Each end of a line was printed as `�`."""
    outputs = {"script": {"value": "one\ntwo\n", "sensitive": False}}
    server.on("GET /api/v1/modules/m/outputs", {"outputs": outputs})
    assert terracrew("module", "outputs", "m").splitlines()[1].split() == ["script", r'"one\ntwo\n"']
    assert terracrew("module", "outputs", "m", "script") == "one\ntwo\n\n"
