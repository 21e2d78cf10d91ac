"""The overview on the command line fits 80 columns, and says what the page says."""

import json
from typing import Any

import pytest

from terracrew.api.overview import FigureSums, Need, QueueNow
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

TIMES = {"starts_at": "2026-11-19T14:00:00Z", "ends_at": "2026-11-19T15:00:00Z"}
QUIET = answer(FigureSums, **TIMES, wait_p50_seconds=None, wait_p95_seconds=None)
TOTAL = {**QUIET, "succeeded": 182, "failed": 4, "failed_engine": 3, "failed_user": 1, "capacity_seconds": 100.0}
TOTAL |= {"busy_seconds": 41.0, "wait_p50_seconds": 0.8, "wait_p95_seconds": 75.0}
NEED = answer(
    Need, kind="failed", path="shop/net", text="plan failed: " + "no such thing " * 40, job_number=7, since=None
)
QUEUE = answer(QueueNow, running=2, waiting=3, awaiting_approval=1, oldest_number=1906, oldest_job_id="job_1")
FOUND: dict[str, Any] = {
    "place": "shop",
    "span": "week",
    "is_partial": True,
    "queue": QUEUE,
    "total": TOTAL,
    "parts": [TOTAL, QUIET],
    "needs": [NEED],
    "more_needs": ["failed"],
}
pytestmark = pytest.mark.feature("P2.overview")


def test_the_overview_says_what_needs_somebody_and_draws_bars_within_80_columns(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    asked: list[str] = []

    def reply(request: Any) -> Any:
        asked.append(request.path)
        return request.answer(200, FOUND)

    server.then(reply)
    out = terracrew("overview", "shop", "--span", "week", "--mine")
    assert all(each in asked[0] for each in ("place=shop", "span=week", "mine=true"))
    for words in ("1+ need you", "Failed: shop/net #7", "3 engine, 1 user", "0.8 s p50, 1 m 15 s p95", "41 % of"):
        assert words in out, out
    assert "█" in out
    assert "186, 4 failed" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "You see a part" in terracrew.err


def test_without_needs_and_jobs_the_overview_is_calm(terracrew: Terracrew, server: ScriptedServer) -> None:
    calm = FOUND | {"needs": [], "more_needs": [], "total": QUIET, "parts": [QUIET], "is_partial": False}
    server.then(*[lambda asked: asked.answer(200, calm)] * 2)
    out = terracrew("overview")
    assert "Nothing needs you." in out
    assert "– p50, – p95" in out
    assert "█" not in out
    assert json.loads(terracrew("overview", "--json"))["queue"]["waiting"] == 3
