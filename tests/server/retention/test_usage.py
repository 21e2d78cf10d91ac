"""Administrators see what is stored and what would be removed; a long count says how far it is."""

import asyncio
from typing import Any

import pytest

from terracrew.api.operations import SurveyProgress, Tally
from terracrew.errors import NotFound, Unavailable
from terracrew.server.retention import passes, surveys
from terracrew.server.retention.surveys import Survey
from terracrew.server.supervise import Tasks
from tests.builders.deliveries import APPLIED, DONE, RUNNING, log
from tests.server.simulated_runner import SimulatedRunner


async def finished(runner: SimulatedRunner, path: str) -> dict[str, Any]:
    """Ask for a survey, as a client does, until it is no longer in progress."""
    async with asyncio.timeout(60):
        while (answer := await runner.app.admin.get(path)).status_code == 202:
            assert answer.json().keys() == {"counting", "elapsed_seconds"}
    return answer.json()


async def test_usage_counts_every_kind_and_names_the_largest_modules(runner: SimulatedRunner) -> None:
    attempt = await runner.run(kind="APPLY")
    await attempt.deliver(RUNNING, log("x" * 1000 + "\n"))
    await attempt.begin()
    await attempt.write(b'{"version": 4}')
    await attempt.deliver(APPLIED, DONE)
    await runner.server.objects.put("parts/upl_0/1", b"content")
    await passes.record(runner.server.db, "pass", runner.server.id, {"logs": Tally(2, 30)})
    found = await finished(runner, "/api/v1/server/usage")
    assert found["last_runs"]["pass"]["removed"] == {"logs": {"count": 2, "bytes": 30}}
    assert found["kinds"]["logs in rows"]["count"] == 1
    assert found["kinds"]["states"] == {"count": 1, "bytes": 14}
    assert found["database_bytes"] > 10_000
    (organization,) = found["organizations"]
    assert organization["name"] == "default"
    assert organization["log_bytes"] == found["kinds"]["logs in rows"]["bytes"] > 0
    assert (organization["state_bytes"], organization["archive_bytes"], organization["queued_jobs"]) == (14, 0, 0)
    (module,) = found["largest_modules"]
    assert module["bytes"] > 14
    assert found["reclaimable"]["retention"] == {
        kind: {"count": 0, "bytes": 0} for kind in ("logs", "states", "archives", "audit", "plans")
    }
    preview = await finished(runner, "/api/v1/server/retention")
    assert preview["policy"]["logs_days"] is None
    assert preview["orphans"]["parts"] == {"count": 0, "bytes": 0}  # it may be in flight
    assert await runner.server.objects.exists("parts/upl_0/1")


async def test_only_administrators_of_the_server_may_ask(runner: SimulatedRunner) -> None:
    owner = await runner.app.person("olga", "owner")
    attempt = await runner.run()
    for path in ("/api/v1/server/usage", "/api/v1/server/retention"):
        await runner.app.stranger().refused("GET", path, 401)
        await owner.refused("GET", path, 403)
        assert (await attempt.engine.get(path)).status_code in (401, 403, 404)
        assert (await attempt.executor.get(path)).status_code in (401, 403, 404)


async def test_counting_that_takes_long_tells_how_far_it_is_and_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveys, "WAIT_SECONDS", 0.01)
    go, starts = asyncio.Event(), list[int]()

    async def count(tell: surveys.Callable[[str], None]) -> str:
        starts.append(1)
        tell("states")
        await go.wait()
        return "counted"

    survey = Survey[str](Tasks(), count)
    found = await asyncio.gather(*(survey.current() for _ in range(3)))
    assert all(isinstance(each, SurveyProgress) and each.counting == "states" for each in found)
    go.set()
    assert await survey.current() == "counted"
    assert await survey.current() == "counted"
    assert len(starts) == 1
    monkeypatch.setattr(surveys, "FRESH_SECONDS", -1.0)
    assert await survey.current() == "counted"
    assert len(starts) == 2


async def test_counting_ends_when_the_server_stops_and_its_error_reaches_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It went on with a database that was closed, in a task that nobody ended."""
    monkeypatch.setattr(surveys, "WAIT_SECONDS", 0.01)
    tasks, ended = Tasks(), asyncio.Event()

    async def count(_: surveys.Callable[[str], None]) -> str:
        try:
            return await asyncio.Future()
        finally:
            ended.set()

    survey = Survey[str](tasks, count)
    assert isinstance(await survey.current(), SurveyProgress)
    await tasks.stop()
    assert ended.is_set()
    with pytest.raises(Unavailable):
        await survey.current()

    async def fail(_: surveys.Callable[[str], None]) -> str:
        raise NotFound("the bucket is gone")

    with pytest.raises(NotFound, match="the bucket is gone"):
        await Survey[str](tasks, fail).current()
