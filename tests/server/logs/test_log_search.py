"""People and programs search in a log: page by page, in all attempts, wherever the log is stored."""

from datetime import UTC, datetime
from typing import Any

import pytest

from terracrew.errors import Unavailable
from terracrew.server.logs import mover as moving
from terracrew.server.logs import reads
from terracrew.server.logs.mover import Mover
from terracrew.server.runs import log_search
from tests.builders.deliveries import DONE, RUNNING, log
from tests.server.simulated_runner import SimulatedAttempt, SimulatedRunner


def path(attempt: SimulatedAttempt) -> str:
    return f"/api/v1/jobs/{attempt.ref.job_id}/log/search"


async def found(runner: SimulatedRunner, of: SimulatedAttempt, /, text: str, **query: Any) -> list[dict[str, Any]]:
    """Return the hits of all pages."""
    hits: list[dict[str, Any]] = []
    after = ""
    while True:
        answer = await runner.app.admin.get(path(of), params={"text": text, "after": after, **query})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        hits += page["hits"]
        if page["is_end"]:
            return hits
        assert page["after"] != after
        after = page["after"]


@pytest.mark.feature("P5.search")
async def test_lines_are_found_with_their_place_time_and_step(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(
        RUNNING, log("one\n", 1.0), log("\x1b[31mErr\x1b[0mor: no\ntwo\n", 2.0), log("an error\n", 3.0)
    )
    answer = await runner.app.admin.get(path(attempt), params={"text": "error", "context": 1})
    first = {
        "attempt": 1, "line": 2, "run_line": 2, "n": 3, "time": 2.0, "step": "plan", "stream": 1, "text": "Error: no",
        "matches": [[0, 5]], "skipped": 0, "before": ["one"], "after": ["two"],
    }  # fmt: skip
    second = {**first, "line": 4, "run_line": 4, "n": 4, "time": 3.0, "text": "an error", "matches": [[3, 8]]}
    assert answer.json() == {
        "hits": [first, {**second, "before": ["two"], "after": []}],
        "after": "1.4", "is_end": True, "is_live": True, "searched": 4, "lines": 4,
    }  # fmt: skip
    assert [hit["line"] for hit in await found(runner, attempt, "error", case=True)] == [4]
    since = datetime.fromtimestamp(2.5, UTC).isoformat()
    assert [hit["line"] for hit in await found(runner, attempt, "error", since=since)] == [4]
    assert await found(runner, attempt, "error", step="apply") == []
    assert [hit["line"] for hit in await found(runner, attempt, "^(an )?err", regex=True, step="plan", limit=1)] == [
        2,
        4,
    ]


@pytest.mark.feature("P5.search")
async def test_a_search_goes_on_where_the_log_grows(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("a needle\nand a nee"))
    page = (await runner.app.admin.get(path(attempt), params={"text": "needle"})).json()
    assert ([hit["line"] for hit in page["hits"]], page["after"], page["is_live"]) == ([1], "1.1", True)
    await attempt.deliver(log("dle\n"), DONE)
    page = (await runner.app.admin.get(path(attempt), params={"text": "needle", "after": page["after"]})).json()
    assert [(hit["line"], hit["text"]) for hit in page["hits"]] == [(2, "and a needle")]
    assert (page["is_end"], page["is_live"], page["searched"]) == (True, False, 2)


@pytest.mark.feature("P5.search")
async def test_all_attempts_are_searched_and_what_is_said_between_them(runner: SimulatedRunner) -> None:
    first = await runner.run()
    await first.deliver(RUNNING, log("queued\nopen"))
    await first.lose()
    second = await runner.again(first.ref.job_id, 2)
    await second.deliver(RUNNING, log("one\nqueued\n"), DONE)
    for limit in (1, 100):
        hits = await found(runner, first, "queued", limit=limit)
        places = [(hit["attempt"], hit["line"], hit["run_line"], hit["step"]) for hit in hits]
        assert places == [(1, 1, 1, "plan"), (2, 0, 2, "between"), (2, 2, 4, "plan")]
    assert [hit["line"] for hit in await found(runner, first, "queued", attempt=2)] == [2]
    assert [hit["line"] for hit in await found(runner, first, "open", attempt=1)] == [2]


@pytest.mark.feature("P5.search")
async def test_a_log_in_the_object_store_has_the_same_hits(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terracrew.server.logs.blocks.BLOCK_BYTES", 2_000)
    monkeypatch.setattr(moving, "MAX_OBJECT_BYTES", 20_000)
    monkeypatch.setattr(moving, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(log_search, "READ_BYTES", 5_000)
    attempt = await runner.run()
    for at in range(30):
        lines = "".join(f"line {at * 50 + each} of many\n" for each in range(50))
        await attempt.deliver(RUNNING, log(lines, 1000.0 + at))
    await attempt.deliver(DONE)
    queries: list[dict[str, Any]] = [
        {"text": "9 of", "context": 2},
        {"text": "line 1499 "},
        {"text": "77", "limit": 2},
        {"text": "5 of", "since": datetime.fromtimestamp(1027.0, UTC).isoformat()},
        {"text": r"\b1\d{3} ", "regex": True, "limit": 100},
    ]
    in_rows = [await found(runner, attempt, **query) for query in queries]
    assert [len(hits) for hits in in_rows] == [150, 1, 24, 15, 500]
    server = runner.server
    await Mover(server.db, server.objects, server.settings.uploads, server.id, 0.0).step()
    assert await runner.app.scalar("SELECT count(*) FROM log_chunks") == 0
    assert await runner.app.scalar("SELECT count(*) FROM log_objects") >= 1
    assert [await found(runner, attempt, **query) for query in queries] == in_rows
    # What comes before the time that is asked for is not read.
    extent = await server.db.read(lambda tx: reads.extent(tx, attempt.ref.job_id))
    start = await server.db.read(lambda tx: reads.before_time(tx, attempt.ref.job_id, extent, 1027.0))
    assert 40 <= start < 56


@pytest.mark.feature("P5.search")
async def test_each_page_shows_the_lines_before_its_first_hit(runner: SimulatedRunner) -> None:
    """`"before": ["o"]`: after a page border, lines around a hit were missing or cut, because they are in earlier chunks."""
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("one\ntw"))
    for text in ("o\n", "needle\n", "three\nneedle\n", "needle\n"):
        await attempt.deliver(log(text))
    await attempt.deliver(DONE)
    whole = await found(runner, attempt, "needle", context=3)
    assert [hit["before"] for hit in whole] == [
        ["one", "two"],
        ["two", "needle", "three"],
        ["needle", "three", "needle"],
    ]
    assert await found(runner, attempt, "needle", context=3, limit=1) == whole


async def test_a_page_ends_in_time_and_the_next_one_goes_on(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "PAGE_SECONDS", 0.0)
    monkeypatch.setattr("terracrew.server.logs.scan.WINDOW_BYTES", 100)
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log(f"{'x' * 200}\n"))
    await attempt.deliver(log("needle\n"))
    page = (await runner.app.admin.get(path(attempt), params={"text": "needle"})).json()
    assert (page["hits"], page["is_end"], page["after"], page["searched"], page["lines"]) == ([], False, "1.1", 1, 2)
    assert [hit["line"] for hit in await found(runner, attempt, "needle")] == [2]


@pytest.mark.parametrize(
    "query",
    ["", "text=", "text=a&after=x", "text=a&after=1.", f"text=a&after=1.{'9' * 20}", f"text=a&after=1{'0' * 20}.1",
     "text=a&after=2.1&attempt=1", "text=a&step=nothing", "text=a&limit=0",
     "text=a&limit=1001", "text=a&context=21", "text=(&regex=true", "text=a%0Ab", "text=a&since=yesterday", f"text={'a' * 501}"],
)  # fmt: skip
async def test_a_search_that_makes_no_sense_is_refused(runner: SimulatedRunner, query: str) -> None:
    attempt = await runner.run()
    await runner.app.admin.refused("GET", f"{path(attempt)}?{query}", 400)


@pytest.mark.parametrize("text", ["x" * 500, "ü" * 500, "/very/long/path" * 20])
async def test_a_long_text_is_looked_for(runner: SimulatedRunner, text: str) -> None:
    """`this regular expression is too large` was the answer to a text of more than a few dozen characters."""
    attempt = await runner.run()
    middle = len(text) // 2
    coloured = f"{text[:middle]}\x1b[1m{text[middle:]}"
    await attempt.deliver(RUNNING, log(f"{text[:-1]}\n{coloured}\n"))
    assert [hit["line"] for hit in await found(runner, attempt, text)] == [2]


async def test_an_attempt_or_a_job_that_there_is_not_is_not_found(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await runner.app.admin.refused("GET", f"{path(attempt)}?text=a&attempt=2", 404)
    await runner.app.admin.refused("GET", "/api/v1/jobs/999/log/search?text=a", 404)


async def test_secrets_that_the_log_masks_are_not_found(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    secret = "tcu_" + "A1b2" * 12
    await attempt.deliver(RUNNING, log(f"token {secret} end\n"))
    assert await found(runner, attempt, secret) == []
    assert await found(runner, attempt, secret[:20]) == []
    assert [hit["text"] for hit in await found(runner, attempt, "token")] == ["token *** end"]


async def test_one_person_searches_once_at_a_time_and_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "MAX_WAIT_SECONDS", 0.01)
    searches = log_search.LogSearches()
    async with searches.turn("ada"):
        with pytest.raises(Unavailable):
            async with searches.turn("ada"):
                pass
        async with searches.turn("bob"):
            with pytest.raises(Unavailable):  # all threads are busy
                async with searches.turn("eve"):
                    pass
        async with searches.turn("eve"):
            pass
    async with searches.turn("ada"), searches.turn("bob"):
        pass
