"""Two versions of a state, compared on the command line."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
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
