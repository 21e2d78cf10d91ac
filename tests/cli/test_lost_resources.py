"""`terracrew job lost-resources` and `job run --import-lost`."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands", "J15.lost")
BLOCK = 'import {\n  to = a.x\n  id = "x-1"\n}\n'
ITEM: dict[str, Any] = {
    "attempt": 1,
    "address": "a.x",
    "action": "created",
    "id": "x-1",
    "type": "a",
    "provider": "a",
    "changed_at": "2024-01-02T03:04:05Z",
    "remedy": "import",
    "explanation": "the state does not have it: import it",
    "import_block": BLOCK,
}
LOST = "GET /api/v1/jobs/7/lost-resources"


def test_the_list_says_what_to_do_and_which_command_is_next(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(LOST, {"items": [ITEM], "next": None, "state_version": 3})
    server.on("GET /api/v1/jobs/7", {"module_path": "platform/vpc"})
    printed = terracrew("job", "lost-resources", "7")
    assert "terracrew job run platform/vpc --apply --import-lost 7" in " ".join(terracrew.err.split())
    assert printed.splitlines()[1].split()[:3] == ["a.x", "created", "x-1"]
    assert terracrew("job", "lost-resources", "7", "--import-blocks") == BLOCK
    assert json.loads(terracrew("job", "lost-resources", "7", "--json")) == [ITEM]


def test_a_job_that_lost_nothing_says_so(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(LOST, {"items": [], "next": None, "state_version": None})
    assert json.loads(terracrew("job", "lost-resources", "7", "--json")) == []
    assert terracrew("job", "lost-resources", "7", "--import-blocks") == ""


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["--import-lost"], {"job": "", "leave_out": []}),
        (["--import-lost", "7", "--leave-out", 'a.x["k"]'], {"job": "7", "leave_out": ['a.x["k"]']}),
    ],
)
def test_a_job_is_asked_to_import(
    terracrew: Terracrew, server: ScriptedServer, arguments: list[str], asked: dict[str, Any]
) -> None:
    server.on("POST /api/v1/modules/vpc/jobs", {"id": "job_1", "number": 8, "status": "QUEUED"})
    terracrew("job", "run", "vpc", "--apply", *arguments)
    assert server.asked[-1].json()["import_lost"] == asked


def test_leaving_something_out_needs_an_import(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("job", "run", "vpc", "--leave-out", "a.x")
    assert terracrew.code != 0
    assert "--leave-out is for a plan with --import-lost" in terracrew.err
