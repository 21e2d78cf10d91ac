"""What is stored and what would be removed, on the command line."""

import json
from typing import Any

import pytest

from terracrew.cli.commands.server import operations
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import Asked, ScriptedServer

PREVIEW: dict[str, Any] = {
    "policy": {
        "logs_days": 90,
        "states_days": None,
        "states_count": 10,
        "plans_days": 0,
        "archives_days": None,
        "audit_days": None,
    },
    "retention": {"logs": {"count": 3, "bytes": 2048}, "states": {"count": 0, "bytes": 0}},
    "orphans": {"parts": {"count": 1, "bytes": 5}},
}
USAGE: dict[str, Any] = {
    "database_bytes": 5 << 20,
    "kinds": {"logs in rows": {"count": 7, "bytes": 1536}},
    "largest_modules": [{"path": "a/m", "bytes": 3 << 30}],
    "organizations": [
        {"name": "acme", "archive_bytes": 1 << 20, "log_bytes": 2 << 20, "state_bytes": 0, "queued_jobs": 17}
    ],
    "reclaimable": PREVIEW,
    "last_runs": {
        "pass": {"finished_at": "2026-01-01T00:00:00Z", "removed": {"logs": {"count": 3, "bytes": 2048}}},
        "sweep": {"finished_at": "2026-01-01T00:00:00Z", "removed": {}},
    },
}


@pytest.mark.feature("E1.progress")
def test_usage_is_shown_with_progress_while_the_server_counts(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: Any
) -> None:
    monkeypatch.setattr(operations, "POLL_SECONDS", 0)
    busy = {"counting": "states", "elapsed_seconds": 3.0}
    server.then(lambda asked: asked.answer(202, busy), lambda asked: asked.answer(200, USAGE))
    shown = terracrew("server", "usage")
    assert "counting states" in terracrew.err
    assert [line.split() for line in shown.splitlines() if "logs in rows" in line] == [
        ["logs", "in", "rows", "7", "1.5", "KiB"]
    ]
    assert "The database has a size of 5.0 MiB." in shown
    assert "3.0 GiB" in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("acme")] == [
        ["acme", "1.0", "MiB", "2.0", "MiB", "0", "B", "17"]
    ]
    assert "ago and removed 3 logs (2.0 KiB)." in shown, "what retention had removed was stored and shown nowhere"
    assert "The sweep of orphans last ran" in shown


def test_the_dry_run_shows_what_would_be_removed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/server/retention", PREVIEW)
    shown = terracrew("server", "retention", "--dry-run")
    assert "90 days" in shown
    assert "2.0 KiB" in shown
    assert "orphans: parts" in shown
    assert json.loads(terracrew("server", "retention", "--dry-run", "--json")) == PREVIEW


def test_retention_is_not_run_from_the_command_line(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("server", "retention")
    assert terracrew.code == 2
    assert "--dry-run" in terracrew.err
    assert server.asked == list[Asked]()
