"""`terracrew group apply` and its companions: progress on standard error, one table at the end, and commands that come next."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands", "E1.progress", "J6.groups")
RUNS = "/api/v1/groups/team/runs"
MODULE: dict[str, Any] = {
    "module_id": "mod_1",
    "path": "team/a",
    "position": 0,
    "waits_for": [],
    "status": "FAILED",
    "job_id": "job_1",
    "job_number": 12,
    "job_status": "FAILED",
    "message": "out of luck",
    "reason": None,
}
SKIPPED = MODULE | {
    "path": "team/b",
    "waits_for": ["team/a"],
    "status": "SKIPPED",
    "job_id": None,
    "job_number": None,
    "job_status": None,
    "message": "`team/a` failed, so it was not run",
}
RUN: dict[str, Any] = {
    "id": "grn_1",
    "path": "team",
    "type": "APPLY",
    "status": "FAILED",
    "started_by_name": "olga",
    "created_at": "2024-01-02T03:04:05Z",
    "modules": [MODULE, SKIPPED],
}


def test_a_run_that_failed_says_what_failed_and_how_to_continue(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"POST {RUNS}", RUN)
    out = terracrew("group", "apply", "team")
    assert terracrew.code == 10
    assert out.splitlines()[1].split("  ")[0] == "team/a"
    assert "#12" in out
    assert "APPLY of team: FAILED" in out
    assert "[2/2] team/a: FAILED (job 12): out of luck" in terracrew.err
    assert "terracrew group apply team --resume" in terracrew.err
    assert json.loads(terracrew("group", "apply", "team", "--json"))["modules"][1]["status"] == "SKIPPED"


def test_a_detached_run_continues_on_the_server(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"POST {RUNS}", RUN | {"status": "RUNNING"})
    assert terracrew("group", "apply", "team", "--detach") == "grn_1\n"
    assert terracrew.code == 0
    assert "terracrew group progress team --follow" in terracrew.err


def test_only_a_run_of_the_same_type_is_resumed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {RUNS}?limit=1", {"items": [RUN], "next": None})
    server.on(f"POST {RUNS}/grn_1/resume", RUN | {"status": "SUCCEEDED", "modules": []})
    terracrew("group", "apply", "team", "--resume")
    assert terracrew.code == 0
    terracrew("group", "destroy", "team", "--resume", "--yes")
    assert terracrew.code == 2
    assert "the newest run of team is APPLY, not DESTROY" in terracrew.err


def test_a_destroy_without_a_terminal_needs_a_confirmation(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("group", "destroy", "team")
    assert terracrew.code == 2
    assert "add --yes" in terracrew.err
    assert server.asked == []


def test_runs_are_listed_shown_and_stopped(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"GET {RUNS}", {"items": [RUN], "next": None})
    assert "grn_1" in terracrew("group", "runs", "team")
    server.on(f"GET {RUNS}?limit=1", {"items": [RUN], "next": None})
    waiting = MODULE | {"status": "RUNNING", "job_status": "AWAITING_APPROVAL", "message": ""}
    waiting |= {"reason": {"code": "approval", "text": "its plan waits for approval"}}
    server.on(f"GET {RUNS}/grn_1", RUN | {"status": "RUNNING", "modules": [waiting]})
    shown = terracrew("group", "progress", "team")
    assert "its plan waits for approval; terracrew job show 12" in shown
    assert shown.splitlines()[1].split()[:2] == ["team/a", "AWAITING_APPROVAL"], "it does not run"
    server.on(f"POST {RUNS}/grn_1/stop", RUN)
    assert terracrew("group", "stop", "team") == "stopped the run of team\n"
    server.on("GET /api/v1/groups/empty/runs?limit=1", {"items": [], "next": None})
    terracrew("group", "stop", "empty")
    assert "empty has no run yet" in terracrew.err
