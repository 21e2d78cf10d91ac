"""Jobs on the command line: one request makes one job, the log is printed exactly, the end is the exit code."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from terracrew.cli.commands.job import follow
from tests.cli.conftest import Terracrew
from tests.cli.job_views import JOB, known, view
from tests.client.scripted_server import Asked, ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")


def event(name: str, data: Any, number: str = "") -> bytes:
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def log(attempt: int, number: int, text: str) -> bytes:
    return event(
        "log",
        [{"n": number, "time": 0, "step": "plan", "stream": 1, "text": text, "attempt": attempt}],
        f"{attempt}.{number}",
    )


def streaming(*pieces: bytes) -> Callable[[Asked], None]:
    return lambda asked: asked.stream(*pieces)


def test_a_job_is_a_plan_unless_told_otherwise_and_its_number_is_printed(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.on("POST /api/v1/modules/a%2Fm/jobs", JOB, 201)
    assert terracrew("job", "run", "a/m") == "7\n"
    assert server.asked[-1].json() == {"type": "PLAN"}
    terracrew("job", "run", "a/m", "--apply", "--priority", "5")
    assert server.asked[-1].json() == {"type": "APPLY", "priority": 5}


def test_a_request_whose_answer_was_lost_is_repeated_under_the_same_key(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    server.then(Asked.hang_up, lambda asked: asked.answer(200, JOB))
    terracrew("job", "run", "a/m")
    terracrew_keys = [asked.headers["Idempotency-Key"] for asked in server.asked]
    assert len(terracrew_keys) == 2
    assert terracrew_keys[0] == terracrew_keys[1]
    server.on("POST /api/v1/modules/a%2Fm/jobs", JOB)
    terracrew("job", "run", "a/m", "--idempotency-key", "nightly")
    assert server.asked[-1].headers["Idempotency-Key"] == "nightly"


@pytest.mark.feature("E1.codes", "L4.live")
@pytest.mark.parametrize(("status", "code"), [("SUCCEEDED", 0), ("FAILED", 10), ("CANCELED", 11), ("DECLINED", 12)])
def test_following_prints_the_log_exactly_and_exits_as_the_job_did(
    terracrew: Terracrew, server: ScriptedServer, status: str, code: int
) -> None:
    server.on("POST /api/v1/modules/a%2Fm/jobs", JOB, 201)
    server.on("GET /api/v1/jobs/job_1", view(status, message="why"))
    server.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(
        event("job", view("PROCESSING")),
        log(1, 1, "first\n\n"),
        log(1, 2, "half"),
        log(1, 3, " a line\r\nünicode\n"),
        event("end", {}),
    )
    assert terracrew("job", "run", "a/m", "--follow") == "first\n\nhalf a line\r\nünicode\n"
    assert terracrew.code == code
    # It printed neither the address of the job's page nor what to type next.
    first, *rest = terracrew.err.splitlines()
    assert first == f"job 7: {server.url}/dashboard/jobs/7"
    assert rest[:2] == ["job 7 PROCESSING", f"job 7 {status}: why"]
    following = {"SUCCEEDED": ["next: terracrew module outputs a/m"], "FAILED": ["next: terracrew job show 7"]}
    assert rest[2:] == following.get(status, [])


@pytest.mark.feature("L4.live")
def test_a_log_that_breaks_off_goes_on_where_it_was(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/job_1", view("SUCCEEDED"))
    server.then(
        streaming(log(1, 1, "a\n"), log(1, 2, "b\n")), Asked.hang_up, streaming(log(2, 1, "c\n"), event("end", {}))
    )
    assert terracrew("job", "logs", "-f", "job_1") == "a\nb\nc\n"
    assert [asked.headers["Last-Event-ID"] for asked in server.asked[:3]] == [None, "1.2", "1.2"]


@pytest.mark.feature("E1.json", "L4.live")
@pytest.mark.parametrize(("status", "code"), [("SUCCEEDED", 0), ("FAILED", 10)])
def test_a_log_is_followed_as_one_json_object_a_line(
    terracrew: Terracrew, server: ScriptedServer, status: str, code: int
) -> None:
    """`--json` and `--follow` together were refused."""
    server.on("GET /api/v1/jobs/job_1", view(status))
    server.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(
        event("job", view("PROCESSING")), log(1, 1, "half"), log(1, 2, " a line\n\x1b[1mü\n"), event("end", {})
    )
    lines = terracrew("job", "logs", "-f", "job_1", "--json").splitlines()
    assert [(each["attempt"], each["n"], each["text"]) for each in map(json.loads, lines)] == [
        (1, 1, "half"),
        (1, 2, " a line\n\x1b[1mü\n"),
    ]
    assert terracrew.code == code
    assert "job 7 PROCESSING" in terracrew.err, "what is not the log goes to standard error"


def test_following_a_run_shows_what_happened_between_its_attempts(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/job_1", view("SUCCEEDED"))
    words = "Planned in 2.1 s · waited 19 m 00 s for approval · approved by admin\n"
    between = {"n": 0, "time": 0, "step": "between", "stream": 2, "text": words, "attempt": 2}
    server.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(
        log(1, 1, "open line"),
        event("log", [between], "2.0"),
        log(2, 1, "applied\n"),
        log(1, 2, "late\n"),
        event("end", {}),
    )
    assert terracrew("job", "logs", "-f", "job_1") == f"open line\n── {words.strip()} ──\napplied\nlate\n"
    assert "delivered late by attempt 1" in terracrew.err


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_colours_are_kept_only_where_somebody_wants_them(
    terracrew: Terracrew, server: ScriptedServer, options: tuple[str, ...]
) -> None:
    text = "\x1b[1m\x1b[32mPlan:\x1b[0m 1 to add, \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\nlast"
    server.on("GET /api/v1/jobs/job_1", view("SUCCEEDED"))
    server.routes["GET /api/v1/jobs/job_1/log"] = lambda asked: asked.answer(200, text.encode(), "text/plain")
    server.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(log(1, 1, text), event("end", {}))
    assert terracrew("job", "logs", *options, "job_1") == "Plan: 1 to add, link\nlast"
    assert terracrew("job", "logs", *options, "--color", "job_1") == "\x1b[1m\x1b[32mPlan:\x1b[0m 1 to add, link\nlast"


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_only_colours_of_a_log_reach_the_terminal(
    terracrew: Terracrew, server: ScriptedServer, options: tuple[str, ...]
) -> None:
    """Clear screen, cursor movement and window titles reached the operator's terminal raw when colours were on."""
    pieces = ["a\x1b[2J\x1b[H\x1b]0;ti", "tle\x07\x1b[", "31mred\x1b]52;c;aGk=\x1b", "\\ \x9b2Jb\r\n"]
    server.on("GET /api/v1/jobs/job_1", view("SUCCEEDED", message="\x1b[2Jdone"))
    server.routes["GET /api/v1/jobs/job_1/log"] = lambda asked: asked.answer(
        200, "".join(pieces).encode(), "text/plain"
    )
    server.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(
        *[log(1, number, piece) for number, piece in enumerate(pieces, start=1)], event("end", {})
    )
    assert terracrew("job", "logs", *options, "--color", "job_1") == "a\x1b[31mred b\r\n\x1b[0m"
    assert terracrew("job", "logs", *options, "job_1") == "ared b\r\n"
    assert "\x1b[2J" not in terracrew.err


def test_waiting_subscribes_before_it_reads(terracrew: Terracrew, server: ScriptedServer) -> None:
    views = iter([view("QUEUED"), view("PROCESSING"), view("FAILED")])
    server.routes["GET /api/v1/events"] = lambda asked: asked.stream(
        b"event: runners\ndata: rnr_1\n\n", b"event: jobs\ndata: job_2\n\n", *[b"event: jobs\ndata: job_1\n\n"] * 2
    )
    server.routes["GET /api/v1/jobs/job_1"] = lambda asked: asked.answer(200, next(views))
    terracrew("job", "wait", "job_1")
    assert terracrew.code == 10
    assert [repr(asked).rpartition("/")[2] for asked in server.asked] == ["events", "job_1", "job_1", "job_1"]


def test_waiting_has_an_end(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/job_1", view("QUEUED"))
    server.routes["GET /api/v1/events"] = streaming(b": alive\n\n")
    terracrew("job", "wait", "job_1", "--timeout", "0.3")
    assert terracrew.code == 13
    assert terracrew.err == "job 7 QUEUED\nerror: job job_1 has not ended within 0.3 s; it continues\n"


def test_a_job_is_waited_for_by_its_number_too(terracrew: Terracrew, server: ScriptedServer) -> None:
    """`job wait 7` never ended: what has changed is told by id."""
    views = iter([view("PROCESSING"), view("SUCCEEDED")])
    server.routes["GET /api/v1/events"] = lambda asked: asked.stream(b"event: jobs\ndata: job_1\n\n")
    server.routes["GET /api/v1/jobs/7"] = lambda asked: asked.answer(200, next(views))
    terracrew("job", "wait", "7", "--timeout", "5")
    assert terracrew.code == 0


@pytest.mark.feature("S6.words")
def test_while_waiting_a_reason_is_told_once_and_with_what_to_type(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    full = {"code": "all_full", "text": "all of its runners are full, 3 jobs ahead of it", "link": ""}
    asks = {"code": "approval", "text": "its plan waits for a person", "until": "2024-01-09T03:04:05Z"}
    asking = view("AWAITING_APPROVAL", reason=asks, plan_attempt=2)
    views = iter([view("QUEUED", reason=full), view("QUEUED", reason=full), asking, asking, view("SUCCEEDED")])
    server.routes["GET /api/v1/events"] = streaming(*[b"event: jobs\ndata: job_1\n\n"] * 4)
    server.routes["GET /api/v1/jobs/job_1"] = lambda asked: asked.answer(200, next(views))
    terracrew("job", "wait", "job_1")
    assert terracrew.code == 0
    told = terracrew.err.splitlines()
    assert told[0] == "job 7 QUEUED: all of its runners are full, 3 jobs ahead of it"
    assert told[1].startswith("job 7 AWAITING_APPROVAL: its plan waits for a person (the time is up)")
    assert told[2] == "  terracrew job approve 7 --plan 2, or terracrew job decline 7 --reason …"
    assert told[3:] == ["job 7 SUCCEEDED", "next: terracrew module outputs a/m"]


@pytest.mark.feature("S6.words")
def test_a_reason_that_time_alone_has_changed_is_told_while_nothing_happens(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = {"code": "silent", "text": "neither its runner nor its executor is heard", "since": "2024-01-02T03:04:05Z"}
    views = iter([view("PROCESSING"), view("PROCESSING", reason=silent), view("FAILED")])
    monkeypatch.setattr(follow, "MIN_POLL_SECONDS", 0.0)
    server.routes["GET /api/v1/events"] = streaming(*[b"event: ping\ndata: {}\n\n"] * 2)
    server.routes["GET /api/v1/jobs/job_1"] = lambda asked: asked.answer(200, next(views))
    terracrew("job", "wait", "job_1")
    assert "neither its runner nor its executor is heard (for " in terracrew.err


@pytest.mark.parametrize("command", [("wait", "job_1"), ("logs", "-f", "job_1")])
def test_waiting_goes_on_through_an_approval_unless_told_to_stop_there(
    terracrew: Terracrew, server: ScriptedServer, command: tuple[str, ...]
) -> None:
    asking = view("AWAITING_APPROVAL", reason={"code": "approval", "text": "its plan waits"}, plan_attempt=1)
    server.on("GET /api/v1/jobs/job_1", asking)
    server.routes["GET /api/v1/events"] = streaming(b"event: ping\ndata: {}\n\n")
    server.routes["GET /api/v1/jobs/job_1/log/stream"] = streaming(log(1, 1, "a\n"), event("job", asking))
    terracrew("job", *command, "--stop-at-approval")
    assert terracrew.code == 14
    terracrew("job", *command, "--timeout", "0.3")
    assert terracrew.code == 13


def test_following_an_attempt_that_is_over_ends_though_the_job_goes_on(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """It ended with a KeyError: the job was PROCESSING, in its next attempt."""
    server.on("GET /api/v1/jobs/job_1", view("PROCESSING"))
    server.routes["GET /api/v1/jobs/job_1/log/stream?attempt=1"] = streaming(log(1, 1, "a\n"), event("end", {}))
    assert terracrew("job", "logs", "-f", "--attempt", "1", "job_1") == "a\n"
    assert terracrew.code == 0


def test_a_job_takes_the_time_from_its_creation_to_its_end(terracrew: Terracrew, server: ScriptedServer) -> None:
    """It took less than its steps, and nothing of the time that it had waited for an approval."""
    times = {"started_at": "2024-01-02T03:40:14.7Z", "finished_at": "2024-01-02T03:40:15Z"}
    server.on("GET /api/v1/jobs/job_1", view("SUCCEEDED") | times)
    assert "36m 10s" in terracrew("job", "show", "job_1")
    server.on("GET /api/v1/jobs?limit=50", {"items": [view("SUCCEEDED") | times], "next": None})
    assert "36m 10s" in terracrew("job", "list")


@pytest.mark.feature("S6.words")
def test_a_job_is_shown_with_its_steps_its_attempts_the_lock_and_why_it_waits(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    waiting = view("QUEUED", plan={"add": 2, "change": 0, "destroy": 1}) | {
        "reason": {"code": "all_full", "text": "all runners are full, 3 jobs ahead"},
        "steps": [{"name": "plan", "status": "RUNNING", "started_at": None, "finished_at": None}],
        "attempts": [{"number": 1}, {"number": 2}],
        "lock": {"number": 5, "attempt": 1, "since": "2024-01-02T03:04:05Z", "lost_at": "2024-01-02T03:14:05Z"},
        "doubts": [{"number": 3, "attempt": 2}],
        "notes": [{"attempt": 1, "text": "reported FAILED too late"}],
    }
    server.on("GET /api/v1/jobs/job_1", waiting)
    lost: dict[str, Any] = {"outcome": "lost", "reason": "ada said that it is gone", "is_in_doubt": True}
    server.on("GET /api/v1/jobs/job_1/attempts/1", known(**lost))
    server.on("GET /api/v1/jobs/job_1/attempts/2", known(2))
    out = terracrew("job", "show", "job_1")
    for words in (
        "all runners are full, 3 jobs ahead",
        "2 to add, 0 to change, 1 to destroy",
        "platform/net · net-a",
        "lost, in doubt",
        "ada said that it is gone",
        "RUNNING",
        "job #5, attempt 1, taken ",
        "; lost for ",
        "attempt 2 of job #3",
        "too late: attempt 1 reported FAILED too late",
    ):
        assert words in out, words
    shown = json.loads(terracrew("job", "show", "job_1", "--json"))
    assert (shown["status"], shown["module_path"]) == ("QUEUED", "a/m")


def test_jobs_are_listed_and_cancelled(terracrew: Terracrew, server: ScriptedServer) -> None:
    failed = view("FAILED") | {"runner_path": "a/edge", "instance_name": "edge-1"}
    server.on("GET /api/v1/jobs?status=FAILED&active=true&limit=50", {"items": [failed], "next": None})
    out = terracrew("job", "list", "--status", "failed", "--active")
    assert out.splitlines()[0].split()[:5] == ["JOB", "TYPE", "STATUS", "MODULE", "RUNNER"]
    assert out.splitlines()[1].split()[:5] == ["#7", "APPLY", "FAILED", "a/m", "a/edge"]
    server.on("POST /api/v1/jobs/job_1/cancel", JOB | {"status": "PROCESSING"}, 202)
    assert terracrew("job", "cancel", "job_1", "--mode", "kill") == "Canceling job 7\n"
    assert server.asked[-1].json() == {"mode": "kill"}


@pytest.mark.feature("J9.modes")
def test_many_jobs_are_canceled_by_one_command_that_first_says_how_many(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    answers = [
        {"matching": 657, "ended": 0, "asked": 0, "up_to": "job_9", "next": None},
        {"matching": 500, "ended": 499, "asked": 1, "up_to": "job_5", "next": "job_5"},
        {"matching": 157, "ended": 157, "asked": 0, "up_to": "job_9", "next": None},
    ]
    left = iter(answers)
    server.routes["POST /api/v1/jobs/cancel"] = lambda asked: asked.answer(200, next(left))
    out = terracrew("job", "cancel", "--all", "--module", "a/m", "--status", "queued", stdin="y\n")
    assert out.endswith("canceled 656 jobs; requested the cancellation of 1 more\n")
    assert "Cancel 657 jobs with status QUEUED of the module a/m?" in terracrew.err
    assert "500 of 657" in terracrew.err
    filters = {"module": "a/m", "status": "QUEUED"}
    assert [asked.json() for asked in server.asked] == [
        filters | {"count_only": True},
        filters | {"up_to": "job_9"},
        filters | {"up_to": "job_9", "after": "job_5"},
    ]
    left = iter(answers)
    made = json.loads(terracrew("job", "cancel", "--all", "--yes", "--json"))
    assert made == {"matching": 657, "ended": 656, "asked": 1}
    left = iter(answers)
    terracrew("job", "cancel", "--all", stdin="n\n")
    assert terracrew.code == 1
    assert terracrew.err.endswith("No job was canceled.\n")
    for wrong in (("job_1", "--all"), (), ("job_1", "--status", "QUEUED")):
        terracrew("job", "cancel", *wrong)
        assert terracrew.code == 2, wrong


def test_whoever_interrupts_a_wait_is_told_the_number_of_the_job(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that cancels the job had its id, which nobody types."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    server.on("POST /api/v1/modules/a/jobs", view("QUEUED"), 201)
    monkeypatch.setattr("terracrew.cli.commands.job.follow.wait", interrupted)
    terracrew("job", "run", "a", "--wait")
    assert "the job continues; `terracrew job cancel 7` ends it" in terracrew.err


def test_a_job_that_another_one_caused_names_it_by_its_number(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", view("QUEUED", cause_job_id="job_0", cause_number=6))
    assert "was changed by job #6" in terracrew("job", "show", "7")


def test_the_last_lines_of_a_log_are_printed_alone(terracrew: Terracrew, server: ScriptedServer) -> None:
    attempts = [{"number": 1, "lines": 9}, {"number": 2, "lines": 60_644}]
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED", attempts=attempts))
    text = b"last but one\nlast\n"
    for query in ("attempt=2&line=60643&lines=2", "attempt=1&line=1&lines=100"):
        server.routes[f"GET /api/v1/jobs/7/log?{query}"] = lambda asked: asked.answer(200, text, "text/plain")
    assert terracrew("job", "logs", "7", "--tail", "2") == text.decode()
    assert terracrew("job", "logs", "7", "--tail", "100", "--attempt", "1") == text.decode()
    terracrew("job", "logs", "7", "--tail", "2", "--attempt", "3")
    assert (terracrew.code, "job 7 has no attempt 3" in terracrew.err) == (4, True)
    terracrew("job", "logs", "7", "--tail", "2", "-f")
    assert terracrew.code == 2
