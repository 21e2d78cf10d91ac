"""`terracrew module dependencies` and `terracrew module end-use`."""

from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")


def used(**more: Any) -> dict[str, Any]:
    known = {
        "id": "inp_1",
        "module_id": None,
        "path": None,
        "is_deleted": False,
        "output": "password",
        "name": "password",
    }
    known |= {
        "target": "variable",
        "is_waited_for": False,
        "triggers": "manual",
        "set_by_name": "ada",
        "is_ended": False,
    }
    return known | more


def test_each_use_of_an_output_says_who_set_it_and_whether_it_has_ended(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    place = "GET /api/v1/modules/a%2Fm/dependencies?direction="
    server.on(f"{place}needs", {"items": [], "next": None})
    uses = [used(), used(id="inp_2", is_ended=True), used(id="inp_3", is_ended=True, ended_by_name="olga")]
    server.on(f"{place}used_by", {"items": uses, "next": None})
    shown = terracrew("module", "dependencies", "a/m").splitlines()
    assert all(word in shown[1] for word in ("inp_1", "a module that you may not see", "password", "ada"))
    assert shown[2].endswith("ada may not read the state any more: jobs wait")
    assert shown[3].endswith("ended by olga: jobs wait")


def test_a_use_of_an_output_is_ended_by_its_id(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("DELETE /api/v1/modules/a%2Fm/dependencies/inp_1", None)
    said = terracrew("module", "end-use", "a/m", "inp_1")
    assert said == "ended inp_1: the other module does not get this output of a/m any more\n"


def test_deleting_asks_first(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("DELETE /api/v1/modules/platform%2Fvpc", None, 204)
    server.on("GET /api/v1/modules/platform%2Fvpc", {"path": "platform/vpc", "used_by": ["platform/app"]})
    terracrew("module", "delete", "platform/vpc", "--force", stdin="n\n")
    assert "1 module uses its outputs: platform/app. Their jobs fail without it" in terracrew.err
    server.asked.clear()
    terracrew("module", "delete", "platform/vpc", stdin="n\n")
    assert (terracrew.code, server.asked) == (1, [])
    assert terracrew.err.endswith("Not deleted.\n")
    terracrew("module", "delete", "platform/vpc", stdin="")
    assert (terracrew.code, server.asked) == (130, [])
    assert terracrew.err.endswith("\nNot deleted.\n")
    terracrew("module", "delete", "platform/vpc", "--yes")
    assert (terracrew.code, len(server.asked)) == (0, 1)
