"""A fresh workspace, and steps that were kept, on the command line."""

from typing import Any

import pytest

from terracrew.wording import plan_words
from tests.cli.conftest import Terracrew
from tests.cli.job_views import view
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("J3.warm")


def test_a_job_and_a_module_ask_for_a_fresh_workspace(terracrew: Terracrew, server: ScriptedServer) -> None:
    module: dict[str, Any] = {"path": "a", "source": {}, "inputs": {}, "environment": {}}
    server.on("POST /api/v1/modules/a/jobs", view("QUEUED"), 201)
    terracrew("job", "run", "a", "--fresh")
    assert server.asked[-1].json() == {"type": "PLAN", "is_fresh": True}
    terracrew("job", "run", "a")
    assert server.asked[-1].json() == {"type": "PLAN"}
    server.on("GET /api/v1/modules/a", module)
    server.on("PATCH /api/v1/modules/a", module)
    for option, wanted in (("--fresh", True), ("--no-fresh", False)):
        terracrew("module", "update", "a", option)
        assert server.asked[-1].json() == {"is_fresh": wanted}
    server.on("POST /api/v1/modules", module, 201)
    terracrew("module", "create", "a", "--path", "/srv/x", "--fresh")
    assert server.asked[-1].json()["is_fresh"] is True


def test_a_job_shows_which_steps_were_kept(terracrew: Terracrew, server: ScriptedServer) -> None:
    steps = [
        {"name": "init", "status": "SKIPPED", "kept_from": 12, "attempt": 1},
        {"name": "validate", "status": "SKIPPED", "attempt": 1},
        {"name": "plan", "status": "SUCCEEDED", "attempt": 1},
    ]
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED", steps=steps))
    terracrew("job", "show", "7")
    assert "kept from job #12" in terracrew.out
    assert "checked by plan" in terracrew.out


def test_only_a_step_that_was_skipped_is_kept() -> None:
    assert plan_words.instead_of_running("init", {"init": "SKIPPED"}, 3) == "kept from job #3"
    assert plan_words.instead_of_running("init", {"init": "SKIPPED"}, None) == ""
    assert plan_words.instead_of_running("init", {"init": "RUNNING"}, 3) == ""
