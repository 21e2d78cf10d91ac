"""Limits and retries on the command line."""

from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.cli.job_views import view
from tests.client.scripted_server import ScriptedServer

MODULE: dict[str, Any] = {"path": "platform/vpc", "source": {"kind": "local", "path": "/srv/x"}}
OPTIONS: list[tuple[list[str], dict[str, Any]]] = [
    (["--time-limit", "30m"], {"job_seconds": 1800}),
    (["--time-limit", "none"], {"job_seconds": None}),
    (
        ["--step-time-limit", "plan=10m", "--step-time-limit", "apply=none"],
        {"step_seconds": {"plan": 600, "apply": None}},
    ),
    (["--memory-limit", "2GB"], {"memory_mb": 2048}),
    (["--memory-limit", "512"], {"memory_mb": 512}),
    (["--process-limit", "100", "--plan-retries", "0"], {"processes": 100, "plan_retries": 0}),
]


@pytest.mark.feature("J10.limits", "J10.memory")
@pytest.mark.parametrize(("options", "sent"), OPTIONS)
def test_groups_and_modules_get_limits(
    terracrew: Terracrew, server: ScriptedServer, options: list[str], sent: dict[str, Any]
) -> None:
    server.on("PATCH /api/v1/groups/a", {"path": "a"})
    assert terracrew("group", "update", "a", *options) == "updated group a: limits\n"
    assert server.asked[-1].json() == {"limits": sent}
    server.on("GET /api/v1/modules/vpc", MODULE)
    server.on("PATCH /api/v1/modules/vpc", MODULE)
    assert terracrew("module", "update", "vpc", *options) == "updated module platform/vpc: limits\n"
    assert server.asked[-1].json() == {"limits": sent}


@pytest.mark.feature("J10.limits")
@pytest.mark.parametrize(
    "wrong",
    [
        ["--time-limit", "soon"],
        ["--time-limit", "5"],
        ["--step-time-limit", "plan"],
        ["--step-time-limit", "sleep=5m"],
        ["--memory-limit", "2TB"],
        ["--process-limit", "-1"],
        ["--plan-retries", "many"],
    ],
)
def test_a_limit_that_is_not_understood_is_refused_before_anything_is_sent(
    terracrew: Terracrew, server: ScriptedServer, wrong: list[str]
) -> None:
    terracrew("group", "update", "a", *wrong)
    assert terracrew.code == 2
    assert "is neither" in terracrew.err
    assert server.asked == []


@pytest.mark.feature("J10.limits", "J10.memory")
def test_a_job_shows_its_limits_and_what_it_lacked(terracrew: Terracrew, server: ScriptedServer) -> None:
    limits = {"job_seconds": 3600, "step_seconds": {"plan": 90}, "memory_mb": 2048, "processes": 100, "plan_retries": 1}
    server.on("GET /api/v1/jobs/7", view("FAILED", limits=limits, failure_kind="out_of_memory"))
    shown = " ".join(terracrew("job", "show", "7").split())
    assert "limits job 1h, plan 90s, 2,048 MB of memory, 100 processes and threads, 1 plan retry" in shown
    assert "cause Out of memory" in shown
