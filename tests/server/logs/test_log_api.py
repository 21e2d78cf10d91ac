"""People and programs read logs as text, as events and by lines."""

import re

import msgspec
import pytest

from tests.builders.deliveries import DONE, RUNNING, log
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner

GREEN = "\x1b[32mcreated\x1b[0m\n"


@pytest.mark.feature("L4.finished")
async def test_a_log_is_read_as_it_was_printed(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("one\n"), log(GREEN), log("a\rb\n"))
    answer = await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/log")
    assert answer.text == "one\n" + GREEN + "a\rb\n"
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert (answer.headers["X-Log-Lines"], answer.headers["X-Log-Attempt"]) == ("3", "1")
    part = await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/log?line=2&lines=1")
    assert part.text == GREEN
    saved = await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}/log?download=true")
    assert saved.headers["Content-Disposition"] == 'attachment; filename="job-1.log"'


@pytest.mark.feature("L4.finished")
@pytest.mark.parametrize("query", ["", "?format=events"])
async def test_a_log_is_compressed_for_whoever_understands_that_and_pages_are_not(
    runner: SimulatedRunner, query: str
) -> None:
    """2,000,026 lines were 183 MB on their way to the browser."""
    attempt = await runner.run()
    await attempt.deliver(RUNNING, *(log("module.network.resource: Still creating...\n" * 400) for _ in range(20)))
    path = f"/api/v1/jobs/{attempt.ref.job_id}/log{query}"
    plain = await runner.app.admin.get(path, headers={"Accept-Encoding": "identity"})
    small = await runner.app.admin.get(path, headers={"Accept-Encoding": "gzip, deflate, br"})
    unwanted = await runner.app.admin.get(path, headers={"Accept-Encoding": "identity, gzip;q=0"})
    assert "Content-Encoding" not in plain.headers
    assert "Content-Encoding" not in unwanted.headers, "gzip;q=0 was taken as a yes"
    assert (small.headers["Content-Encoding"], small.headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert small.content == plain.content
    assert small.num_bytes_downloaded < len(plain.content) / 20
    page = await (await logged_in(runner.app)).get("/dashboard/jobs", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in page.headers, "a page holds a token beside text that others wrote"


async def test_events_come_one_a_line_from_where_the_reader_is(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("one\n", 1.0), log("two\n", 2.0), log("three\n", 3.0))
    path = f"/api/v1/jobs/{attempt.ref.job_id}/log?format=events"
    answer = await runner.app.admin.get(f"{path}&after=1.2&limit=1")
    assert [msgspec.json.decode(line) for line in answer.text.splitlines()] == [
        {"n": 3, "time": 2.0, "step": "plan", "stream": 1, "text": "two\n", "attempt": 1}
    ]
    assert len((await runner.app.admin.get(path)).text.splitlines()) == 3


LOST = re.compile(r"first\n── Attempt 1 was lost after [<.\d]+ s: killed · queued again ──\n")


async def test_the_log_is_that_of_the_whole_run_unless_an_attempt_is_named(runner: SimulatedRunner) -> None:
    """Of a job that was approved, `job logs` printed only the apply: the plan was the log of an earlier attempt."""
    first = await runner.run()
    path = f"/api/v1/jobs/{first.ref.job_id}/log"
    await first.deliver(RUNNING, log("first\n"))
    await first.lose()
    assert LOST.fullmatch((await runner.app.admin.get(path)).text)
    second = await runner.again(first.ref.job_id, 2)
    await second.deliver(RUNNING, log("second\n"), DONE)
    whole = (await runner.app.admin.get(path)).text
    assert LOST.fullmatch(whole.removesuffix("second\n"))
    assert whole.endswith("second\n")
    assert (await runner.app.admin.get(path, params={"attempt": 2})).text == "second\n"
    assert (await runner.app.admin.get(path, params={"attempt": 1})).text == "first\n"
    await runner.app.admin.refused("GET", f"{path}?attempt=3", 404)


async def test_a_job_that_nobody_has_had_has_an_empty_log(runner: SimulatedRunner) -> None:
    job_id = await runner.rows.job(await runner.rows.module())
    assert (await runner.app.admin.get(f"/api/v1/jobs/{job_id}/log")).text == ""


@pytest.mark.parametrize("query", ["line=0", "lines=0", "limit=0", "after=-1", "attempt=0", "format=xml", "after=x"])
async def test_a_range_that_makes_no_sense_is_refused(runner: SimulatedRunner, query: str) -> None:
    attempt = await runner.run()
    await runner.app.admin.refused("GET", f"/api/v1/jobs/{attempt.ref.job_id}/log?{query}", 400)


async def test_a_log_is_for_those_who_may_see_the_job(runner: SimulatedRunner) -> None:
    attempt, other = await runner.run(), await runner.run()
    await attempt.deliver(RUNNING, log("secret plans\n"))
    nobody, foreign = (
        await runner.app.person("nobody"),
        await runner.app.person("fred", "owner", organization="elsewhere"),
    )
    for path in (f"/api/v1/jobs/{attempt.ref.job_id}/log", f"/api/v1/jobs/{attempt.ref.job_id}/log/stream"):
        await runner.app.stranger().refused("GET", path, 401)
        for who in (nobody, foreign, other.engine, other.executor):
            await who.refused("GET", path, 404)
        await attempt.executor.refused("GET", path, 403)
    for who in (await runner.app.person("vera", "viewer"), attempt.engine):
        assert (await who.get(f"/api/v1/jobs/{attempt.ref.job_id}/log")).text == "secret plans\n"


@pytest.mark.feature("P5.parts")
async def test_a_part_of_a_log_is_chosen_by_step_and_time(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    path = f"/api/v1/jobs/{attempt.ref.job_id}/log"
    for at in range(5):
        await attempt.deliver(RUNNING, log(f"{at}\n", 1000.0 + at))
    since = "1970-01-01T00:16:43Z"
    assert (await runner.app.admin.get(path, params={"since": since})).text == "3\n4\n"
    assert (await runner.app.admin.get(path, params={"since": since, "attempt": 1, "step": "plan"})).text == "3\n4\n"
    assert (await runner.app.admin.get(path, params={"step": "apply"})).text == ""
    events = await runner.app.admin.get(path, params={"since": since, "format": "events", "limit": 1})
    assert [msgspec.json.decode(line)["text"] for line in events.text.splitlines()] == ["3\n"]
    await runner.app.admin.refused("GET", f"{path}?step=nothing", 400)
    await runner.app.admin.refused("GET", f"{path}?step=plan&line=1", 400)
    await attempt.lose()
    assert "was lost" in (await runner.app.admin.get(path, params={"since": since})).text
    assert "was lost" not in (await runner.app.admin.get(path, params={"step": "plan"})).text
