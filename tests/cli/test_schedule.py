"""Schedules on the command line."""

import json
from typing import Any

import pytest

from terracrew.api.schedules import ScheduleView
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

VIEW = answer(
    ScheduleView,
    id="sch_1",
    name="nightly",
    kind="DRIFT",
    path="shop",
    cron="0 3 * * *",
    times="at 03:00 every day, UTC",
    next_words="tomorrow at 03:00 UTC",
    changed_by_name="olga",
    last_at="2026-11-01T03:00:00Z",
    last_outcome="nothing was started: olga may not run jobs any more",
    is_last_problem=True,
)
pytestmark = pytest.mark.feature("M1.kinds", "E1.commands")


def test_a_schedule_is_created_and_changed_by_its_name(terracrew: Terracrew, server: ScriptedServer) -> None:
    bodies: list[Any] = []

    def reply(asked: Any) -> Any:
        bodies.append((asked.method, asked.path, json.loads(asked.body)))
        return asked.answer(200, VIEW)

    page = {"items": [VIEW]}
    server.then(reply, lambda asked: asked.answer(200, page), reply)
    options = ("--kind", "DRIFT", "--cron", "0 3 * * *", "--no-refresh-only", "--jitter-minutes", "30")
    out = terracrew("schedule", "create", "shop", "nightly", *options)
    assert out == "the schedule nightly of shop (drift check) starts next: tomorrow at 03:00 UTC\n"
    assert "at 03:00 every day, UTC" in terracrew.err
    terracrew("schedule", "update", "nightly", "--no-enabled")
    (_, path, made), (method, changed, change) = bodies
    assert (path, made["place"], made["is_refresh_only"]) == ("/api/v1/schedules", "shop", False)
    assert (made["kind"], made["jitter_minutes"]) == ("DRIFT", 30)
    assert (method, changed, change) == ("PATCH", "/api/v1/schedules/sch_1", {"is_enabled": False})


def test_a_list_says_why_nothing_was_started(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, {"items": [VIEW]}))
    out = terracrew("schedule", "list")
    assert "nothing started, " in out
    assert "nightly of shop: nothing was started: olga may not run jobs any more" in terracrew.err + out


def test_a_name_that_several_schedules_have_is_refused(terracrew: Terracrew, server: ScriptedServer) -> None:
    both = {"items": [VIEW, VIEW | {"id": "sch_2", "path": ""}]}
    server.then(lambda asked: asked.answer(200, both), lambda asked: asked.answer(200, {"items": []}))
    terracrew("schedule", "show", "nightly")
    assert terracrew.code == 2
    assert "name one by its id (sch_1 of shop, sch_2 of /)" in terracrew.err
    terracrew("schedule", "show", "weekly")
    assert terracrew.code == 4
    assert "there is no schedule 'weekly' that you may see" in terracrew.err


def test_a_schedule_is_run_and_deleted(terracrew: Terracrew, server: ScriptedServer) -> None:
    asked: list[str] = []

    def reply(request: Any) -> Any:
        asked.append(f"{request.method} {request.path}")
        return request.answer(200, {"outcome": "asked for 1 drift check"} if request.method == "POST" else VIEW)

    server.then(*[reply] * 4)
    assert terracrew("schedule", "run", "sch_1") == "asked for 1 drift check\n"
    assert terracrew("schedule", "delete", "sch_1", "--yes") == "deleted the schedule nightly\n"
    one = "/api/v1/schedules/sch_1"
    assert asked == [f"GET {one}", f"POST {one}/run", f"GET {one}", f"DELETE {one}"]
