"""`terracrew job lost-resources` and `job run --import-lost`."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.cli.job_views import asking, known, view
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
WHOLE: dict[str, Any] = {"next": None, "state_version": 3, "is_complete": True, "gaps": []}
GAP = {
    "attempt": 1,
    "log_ends_at": "2024-01-02T03:04:05Z",
    "heard_at": "2024-01-02T03:04:09Z",
    "explanation": "the log of attempt 1 ends 4 s before the last contact with it",
}
LOST = "GET /api/v1/jobs/7/lost-resources"


def test_the_list_says_what_to_do_and_which_command_is_next(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(LOST, {"items": [ITEM], **WHOLE})
    server.on("GET /api/v1/jobs/7", {"module_path": "platform/vpc"})
    printed = terracrew("job", "lost-resources", "7")
    assert "terracrew job run platform/vpc --apply --import-lost 7" in " ".join(terracrew.err.split())
    assert printed.splitlines()[1].split()[:3] == ["a.x", "created", "x-1"]
    assert terracrew("job", "lost-resources", "7", "--import-blocks") == BLOCK
    found = json.loads(terracrew("job", "lost-resources", "7", "--json"))
    assert (found["items"], found["is_complete"], found["gaps"]) == ([ITEM], True, [])


def test_a_job_that_lost_nothing_says_so(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(LOST, {"items": [], **WHOLE})
    assert json.loads(terracrew("job", "lost-resources", "7", "--json"))["items"] == []
    assert terracrew("job", "lost-resources", "7", "--import-blocks") == ""
    assert terracrew("job", "lost-resources", "7") == ""
    assert "job 7 has lost nothing" in terracrew.err


def test_a_list_that_may_be_incomplete_never_says_that_nothing_was_lost(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """`job 1 has lost nothing` was printed while six resources existed that no state had."""
    incomplete = WHOLE | {"is_complete": False, "gaps": [GAP]}
    server.on(LOST, {"items": [], **incomplete})
    for options in ([], ["--import-blocks"]):
        assert terracrew("job", "lost-resources", "7", *options) == ""
        assert f"warning: {GAP['explanation']}" in terracrew.err
        assert "nothing was lost" not in terracrew.err
        assert "has lost nothing" not in terracrew.err
    planned = ITEM | {"action": "planned_create", "id": "", "changed_at": None, "remedy": "look", "import_block": ""}
    server.on(LOST, {"items": [planned], **incomplete})
    assert "was to create" in terracrew("job", "lost-resources", "7")
    assert json.loads(terracrew("job", "lost-resources", "7", "--json"))["gaps"] == [GAP | {"job_id": ""}]


def test_what_is_not_known_is_said_wherever_a_person_decides(terracrew: Terracrew, server: ScriptedServer) -> None:
    unknown = known(is_complete=False, gap=GAP, lost_at="2024-01-02T03:05:07Z")
    waiting = asking(lock=None) | {"doubts": [unknown]}
    server.on("GET /api/v1/jobs/7", waiting)
    server.on("POST /api/v1/jobs/job_1/approve", waiting | {"status": "QUEUED"})
    server.on("POST /api/v1/jobs/job_1/replan", waiting | {"status": "QUEUED"})
    lost = view("PROCESSING", attempt=1, attempts=[{"number": 1}], lock=None)
    server.on("GET /api/v1/jobs/8", lost)
    server.on("GET /api/v1/jobs/job_1/attempts/1", unknown)
    server.on("POST /api/v1/jobs/job_1/attempts/1/gone", lost)
    for command in (
        ("approve", "7", "--yes"),
        ("replan", "7"),
        ("show", "8"),
        ("gone", "8", "--yes"),
    ):
        terracrew("job", *command)
        said = " ".join(terracrew.err.split())
        assert f"warning: {GAP['explanation']}" in said, command
        assert "what to look for: terracrew job lost-resources 7" in said, command


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
