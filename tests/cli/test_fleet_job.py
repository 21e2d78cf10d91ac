"""`terracrew fleet-job`: lists, steps, logs that are followed, and exit codes that say how a job ended."""

import json

import pytest

from terracrew.api.fleet_jobs import FleetJobView, FleetStep
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands", "W4.fleet")
PLACE = "/api/v1/fleet-jobs/12"
STEP = answer(
    FleetStep,
    name="role",
    words="Task role",
    status="done",
    reference="arn:aws:iam::1:role/r",
    detail="",
    remedy="",
    started_at="2024-01-02T03:04:05Z",
    finished_at="2024-01-02T03:04:06Z",
)
FAILED_STEP = STEP | {
    "name": "logs",
    "words": "Log group",
    "status": "failed",
    "detail": "denied",
    "remedy": "allow it",
}
JOB = answer(
    FleetJobView,
    id="fjb_1",
    number=12,
    type="DEPLOY_WORKER",
    status="FAILED",
    attempt=2,
    target_name="team/burst",
    error="the cloud refused",
    created_at="2024-01-02T03:04:05Z",
    finished_at="2024-01-02T03:04:35Z",
    created_by_name="marta",
    steps=[STEP, FAILED_STEP],
)


def events(*found: tuple[str, object]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (name.encode(), json.dumps(data).encode()) for name, data in found)


def test_a_list_and_a_job_with_its_steps(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/fleet-jobs?status=FAILED&limit=50", {"items": [JOB], "next": None})
    out = terracrew("fleet-job", "list", "--status", "failed")
    assert out.splitlines()[1].split()[:4] == ["#12", "DEPLOY_WORKER", "FAILED", "team/burst"]
    server.on(f"GET {PLACE}", JOB)
    out = terracrew("fleet-job", "show", "12")
    assert "✓ Task role  arn:aws:iam::1:role/r  1.0s" in out
    assert "✗ Log group  denied" in out
    assert "    allow it" in out


def test_a_followed_log_ends_with_the_job(terracrew: Terracrew, server: ScriptedServer) -> None:
    lines = [{"attempt": 1, "number": 1, "at": "2024-01-02T03:04:05Z", "text": "Task role\u001b[31m"}]
    server.on(f"GET {PLACE}/log/stream", events(("job", JOB), ("log", lines), ("end", {})))
    server.on(f"GET {PLACE}", JOB)
    out = terracrew("fleet-job", "logs", "-f", "12")
    assert terracrew.code == 10
    assert "Task role" in out
    assert "\u001b[31m" not in out
    assert "job 12 FAILED: the cloud refused" in terracrew.err


def test_a_cancel_says_what_happens_next(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(f"POST {PLACE}/cancel", JOB | {"status": "PROCESSING"})
    assert "it removes what it has made" in terracrew("fleet-job", "cancel", "12")
