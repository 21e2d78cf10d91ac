"""`job logs --grep`: the server searches, and the lines are printed as `grep -n -C` prints them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from terracrew.cli.commands.job import log_search
from tests.cli.conftest import Terracrew
from tests.cli.job_views import view
from tests.cli.test_job import event, streaming
from tests.client.scripted_server import Asked, ScriptedServer

pytestmark = pytest.mark.feature("P5.command", "E1.commands")


def hit(line: int, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "attempt": 1, "line": line, "run_line": line, "n": line, "time": 1.0, "step": "apply", "stream": 1, "text": text,
        "matches": [[0, 1]], **fields,
    }  # fmt: skip


def page(*hits: dict[str, Any], after: str, is_end: bool = True, is_live: bool = False) -> dict[str, Any]:
    return {"hits": list(hits), "after": after, "is_end": is_end, "is_live": is_live, "searched": 5, "lines": 9}


def answer(body: Any) -> Callable[[Asked], None]:
    return lambda asked: asked.answer(200, body)


def test_all_pages_are_asked_for_and_lines_have_their_numbers(terracrew: Terracrew, server: ScriptedServer) -> None:
    first = page(hit(1, "an error"), after="1.4", is_end=False)
    second = page(hit(7, "Error\x1b[2J: two", skipped=3), after="1.9")
    server.then(answer(first), answer(page(after="1.6", is_end=False)), answer(second))
    assert terracrew("job", "logs", "7", "--grep", "error", "--step", "apply") == "1: an error\n7: …Error: two\n"
    assert [asked.path.partition("search?")[2] for asked in server.asked] == [
        "text=error&step=apply&limit=500",
        "text=error&step=apply&after=1.4&limit=500",
        "text=error&step=apply&after=1.6&limit=500",
    ]


def test_lines_around_hits_are_printed_once(terracrew: Terracrew, server: ScriptedServer) -> None:
    hits = (
        hit(2, "hit 2", before=["1"], after=["hit 3", "4"]),
        hit(3, "hit 3", before=["1", "hit 2"], after=["4", "5"]),
        hit(7, "hit 7", before=["5", "6"], after=["8", "9"]),
        hit(20, "hit 20", before=["18", "19"], after=[]),
    )
    server.then(answer(page(*hits, after="1.20")))
    assert terracrew("job", "logs", "7", "--grep", "hit", "-C", "2", "--regex").splitlines() == [
        "1- 1", "2: hit 2", "3: hit 3", "4- 4", "5- 5", "6- 6", "7: hit 7", "8- 8", "9- 9", "--", "18- 18", "19- 19", "20: hit 20",
    ]  # fmt: skip
    assert server.asked[0].path.endswith("/log/search?text=hit&regex=true&context=2&limit=500")


def test_json_has_a_hit_in_each_line_and_nothing_found_is_said(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(
        answer(page(hit(1, "a"), hit(2, "b"), after="1.2")), answer(page(after="1.2")), answer(page(after="1.2"))
    )
    lines = terracrew("job", "logs", "7", "--grep", "x", "--json").splitlines()
    assert [(each["line"], each["text"]) for each in map(json.loads, lines)] == [(1, "a"), (2, "b")]
    assert terracrew("job", "logs", "7", "--grep", "x") == ""
    assert "no line of the log of job 7 has 'x'" in terracrew.err
    assert terracrew("job", "logs", "7", "--grep", "x", "--json") == ""
    assert terracrew.code == 0


def test_a_search_follows_the_log_to_the_end_of_the_job(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "POLL_SECONDS", 0.0)
    server.then(
        answer(page(hit(1, "a"), after="1.1", is_live=True)),
        answer(page(after="1.1", is_live=True)),
        answer(page(hit(2, "b"), after="1.2")),
        answer(view("FAILED")),
    )
    assert terracrew("job", "logs", "7", "--grep", "x", "-f") == "1: a\n2: b\n"
    assert terracrew.code == 10


def test_the_last_lines_alone_are_searched(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(answer(view("SUCCEEDED", attempts=[])), answer(page(after="1.1")))
    terracrew("job", "logs", "7", "--grep", "x", "--tail", "5")
    assert server.asked[1].path.endswith("/log/search?text=x&limit=500")


def test_a_log_is_filtered_by_step_and_time(terracrew: Terracrew, server: ScriptedServer) -> None:
    def text(asked: Asked) -> None:
        asked.answer(200, b"one\n", kind="text/plain")

    server.then(text)
    assert terracrew("job", "logs", "7", "--step", "plan", "--since", "2026-01-01") == "one\n"
    assert server.asked[0].path.endswith("/log?since=2026-01-01T00%3A00%3A00%2B00%3A00&step=plan")
    events = [
        {"n": at, "time": 1767225600.0 + at, "step": step, "stream": 1, "text": f"{step} {at}\n", "attempt": 1}
        for at, step in ((-1, "plan"), (0, "plan"), (1, "apply"))
    ]
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED"))
    server.routes["GET /api/v1/jobs/7/log/stream"] = streaming(event("log", events, "1.1"), event("end", {}))
    assert terracrew("job", "logs", "7", "-f", "--step", "plan", "--since", "2026-01-01") == "plan 0\n"
    assert [
        json.loads(line)["n"] for line in terracrew("job", "logs", "7", "-f", "--step", "apply", "--json").splitlines()
    ] == [1]


@pytest.mark.parametrize(
    "options",
    [
        ("--regex",),
        ("--case",),
        ("-C", "3"),
        ("--tail", "3", "--step", "plan"),
        ("--grep", "x", "-f", "--stop-at-approval"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    terracrew: Terracrew, server: ScriptedServer, options: tuple[str, ...]
) -> None:
    terracrew("job", "logs", "7", *options)
    assert terracrew.code == 2
    assert server.asked == []
