"""Jobs on the command line: one request makes one job, the log is printed exactly, the end is the exit code."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.client.site import Asked, Site

pytestmark = pytest.mark.feature("E1")
JOB: dict[str, Any] = {
    "id": "job_1", "number": 7, "type": "APPLY", "status": "QUEUED", "message": "",
    "created_at": "2024-01-02T03:04:05Z",
    "started_at": None, "finished_at": None, "engine_version": "1.12.6", "plan": None,
}  # fmt: skip


def view(status: str, **job: Any) -> dict[str, Any]:
    return JOB | {
        "status": status,
        "module_path": "a/m",
        "engine": "tofu",
        "runner_path": "shared",
        "attempts": [],
        "steps": [],
        "reason": None,
        **job,
    }


def event(name: str, data: Any, number: str = "") -> bytes:
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def log(attempt: int, number: int, text: str) -> bytes:
    return event(
        "log", [{"n": number, "time": 0, "step": "plan", "stream": "stdout", "text": text}], f"{attempt}.{number}"
    )


def streaming(*pieces: bytes) -> Callable[[Asked], None]:
    return lambda asked: asked.stream(*pieces)


def test_a_job_is_a_plan_unless_told_otherwise_and_its_id_is_printed(terracrew: Terracrew, site: Site) -> None:
    site.on("POST /api/v1/modules/a%2Fm/jobs", JOB, 201)
    assert terracrew("job", "run", "a/m") == "job_1\n"
    assert site.asked[-1].json() == {"type": "PLAN"}
    terracrew("job", "run", "a/m", "--apply", "--priority", "5")
    assert site.asked[-1].json() == {"type": "APPLY", "priority": 5}


def test_a_request_whose_answer_was_lost_is_repeated_under_the_same_key(terracrew: Terracrew, site: Site) -> None:
    site.then(Asked.hang_up, lambda asked: asked.answer(200, JOB))
    terracrew("job", "run", "a/m")
    terracrew_keys = [asked.headers["Idempotency-Key"] for asked in site.asked]
    assert len(terracrew_keys) == 2
    assert terracrew_keys[0] == terracrew_keys[1]
    site.on("POST /api/v1/modules/a%2Fm/jobs", JOB)
    terracrew("job", "run", "a/m", "--idempotency-key", "nightly")
    assert site.asked[-1].headers["Idempotency-Key"] == "nightly"


@pytest.mark.feature("L4")
@pytest.mark.parametrize(("status", "code"), [("SUCCEEDED", 0), ("FAILED", 10), ("CANCELED", 11), ("DECLINED", 12)])
def test_following_prints_the_log_exactly_and_exits_as_the_job_did(
    terracrew: Terracrew, site: Site, status: str, code: int
) -> None:
    site.on("POST /api/v1/modules/a%2Fm/jobs", JOB, 201)
    site.on("GET /api/v1/jobs/job_1", view(status, message="why"))
    site.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(
        event("job", view("PROCESSING")),
        log(1, 1, "first\n\n"),
        log(1, 2, "half"),
        log(1, 3, " a line\r\nünicode\n"),
        event("end", {}),
    )
    assert terracrew("job", "run", "a/m", "--follow") == "first\n\nhalf a line\r\nünicode\n"
    assert terracrew.code == code
    assert terracrew.err.splitlines() == ["job 7 PROCESSING", f"job 7 {status}: why"]


@pytest.mark.feature("L4")
def test_a_log_that_breaks_off_goes_on_where_it_was(terracrew: Terracrew, site: Site) -> None:
    site.on("GET /api/v1/jobs/job_1", view("SUCCEEDED"))
    site.then(
        streaming(log(1, 1, "a\n"), log(1, 2, "b\n")), Asked.hang_up, streaming(log(2, 1, "c\n"), event("end", {}))
    )
    assert terracrew("job", "logs", "-f", "job_1") == "a\nb\nc\n"
    assert [asked.headers["Last-Event-ID"] for asked in site.asked[:3]] == [None, "1.2", "1.2"]
    assert "attempt 2" in terracrew.err


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_colours_are_kept_only_where_somebody_wants_them(
    terracrew: Terracrew, site: Site, options: tuple[str, ...]
) -> None:
    text = "\x1b[1m\x1b[32mPlan:\x1b[0m 1 to add, \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\nlast"
    site.on("GET /api/v1/jobs/job_1", view("SUCCEEDED"))
    site.routes["GET /api/v1/jobs/job_1/log"] = lambda asked: asked.answer(200, text.encode(), "text/plain")
    site.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(log(1, 1, text), event("end", {}))
    assert terracrew("job", "logs", *options, "job_1") == "Plan: 1 to add, link\nlast"
    assert terracrew("job", "logs", *options, "--color", "job_1") == text


def test_waiting_subscribes_before_it_reads(terracrew: Terracrew, site: Site) -> None:
    views = iter([view("QUEUED"), view("PROCESSING"), view("FAILED")])
    site.routes["GET /api/v1/events"] = lambda asked: asked.stream(
        b"event: runners\ndata: rnr_1\n\n", b"event: jobs\ndata: job_2\n\n", *[b"event: jobs\ndata: job_1\n\n"] * 2
    )
    site.routes["GET /api/v1/jobs/job_1"] = lambda asked: asked.answer(200, next(views))
    terracrew("job", "wait", "job_1")
    assert terracrew.code == 10
    assert [repr(asked).rpartition("/")[2] for asked in site.asked] == ["events", "job_1", "job_1", "job_1"]


def test_waiting_has_an_end(terracrew: Terracrew, site: Site) -> None:
    site.on("GET /api/v1/jobs/job_1", view("QUEUED"))
    site.routes["GET /api/v1/events"] = streaming(b": alive\n\n")
    terracrew("job", "wait", "job_1", "--timeout", "0.3")
    assert terracrew.code == 13
    assert terracrew.err == "error: job job_1 has not ended within 0.3 s; it goes on\n"


def test_a_job_is_shown_with_its_steps_and_why_it_waits(terracrew: Terracrew, site: Site) -> None:
    waiting = view("QUEUED", plan={"add": 2, "change": 0, "destroy": 1}) | {
        "reason": {"code": "all_full", "text": "all runners are full, 3 jobs ahead"},
        "steps": [{"name": "plan", "status": "RUNNING", "started_at": None, "finished_at": None}],
        "attempts": [{"number": 1, "outcome": "lost", "reason": "no heartbeat"}, {"number": 2}],
    }
    site.on("GET /api/v1/jobs/job_1", waiting)
    out = terracrew("job", "show", "job_1")
    for words in (
        "all runners are full, 3 jobs ahead",
        "2 to add, 0 to change, 1 to destroy",
        "no heartbeat",
        "RUNNING",
    ):
        assert words in out
    shown = json.loads(terracrew("job", "show", "job_1", "--json"))
    assert (shown["status"], shown["module_path"]) == ("QUEUED", "a/m")


def test_jobs_are_listed_and_cancelled(terracrew: Terracrew, site: Site) -> None:
    site.on("GET /api/v1/jobs?status=FAILED&active=true&limit=50", {"items": [view("FAILED")], "next": None})
    out = terracrew("job", "list", "--status", "failed", "--active")
    assert out.splitlines()[1].split()[:4] == ["#7", "APPLY", "FAILED", "a/m"]
    site.on("POST /api/v1/jobs/job_1/cancel", JOB | {"status": "PROCESSING"}, 202)
    assert terracrew("job", "cancel", "job_1", "--mode", "kill") == "asked job_1 to end\n"
    assert site.asked[-1].json() == {"mode": "kill"}
