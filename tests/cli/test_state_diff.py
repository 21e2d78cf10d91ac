"""Two versions of a state, compared on the command line."""

import json
from typing import Any

import pytest

from terracrew.api.states import State
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.cli.job_views import view
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")
FOUND: dict[str, Any] = {
    "before": {"id": "sta_1", "version": 1},
    "after": {"id": "sta_2", "version": 2},
    "counts": {"update": 1},
    "left_out": [],
    "outputs": [],
    "total": 3,
    "items": [
        {
            "address": "aws_db.ledger",
            "action": "update",
            "attributes": [{"name": "size", "action": "update", "before": "1", "after": "2"}],
            "changed": 1,
        }
    ],
    "next": None,
}


def test_a_state_is_compared_with_the_version_before_or_with_another_one(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("GET /api/v1/states/sta_2/diff?limit=100", FOUND)
    shown = terracrew("state", "diff", "sta_2")
    assert "~ aws_db.ledger  changed" in shown
    assert "~ size: 1 → 2" in shown
    assert "from version 1 to version 2" in terracrew.err
    assert "2 more resources differ" in terracrew.err
    server.on("GET /api/v1/states/sta_2/diff?with=sta_0&limit=100", FOUND)
    assert json.loads(terracrew("state", "diff", "sta_2", "sta_0", "--json"))["total"] == 3


def test_a_plan_after_a_rollback_that_changes_only_an_output_is_not_called_empty(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """It said: the plan finds nothing to change."""
    plan = {"add": 0, "change": 0, "destroy": 0, "outputs": {"url": "update"}}
    server.on("POST /api/v1/states/sta_1/restore", {"version": 3, "serial": 7})
    server.on(
        "GET /api/v1/modules/a%2Fm/states", {"items": [answer(State, id="sta_1", version=1, status="superseded")]}
    )
    server.on("POST /api/v1/modules/a%2Fm/jobs", view("QUEUED", type="PLAN"), 201)
    server.on("GET /api/v1/jobs/job_1", view("SUCCEEDED", type="PLAN", plan=plan))
    server.routes["GET /api/v1/events"] = lambda asked: asked.stream(b"event: jobs\ndata: job_1\n\n")
    out = terracrew("state", "rollback", "a/m", "1", "--yes")
    assert "nothing to change" not in out
    assert "the plan finds changes: 0 to add, 0 to change, 0 to destroy, 1 output changed" in terracrew.err
