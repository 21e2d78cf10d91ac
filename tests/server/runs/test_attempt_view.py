"""The API shows what is known of an attempt, and of its job."""

import time
from typing import Literal

import pytest

from terracrew.protocol import events
from terracrew.protocol.events import Record, StepStatus
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Work
from terracrew.server.jobs import service as jobs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runs import view
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, log
from tests.builders.job_rows import change_attempts, change_jobs, change_modules
from tests.server.hub.statement_counts import NotingTx, on_each_unit
from tests.server.simulated_runner import SimulatedRunner


async def test_the_view_of_an_attempt_reads_its_log_beside_the_event_loop(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to 2 MiB of a log were read and searched on the event loop, and every other request waited for it."""
    attempt = await runner.begun()
    await attempt.deliver(log("a.x: Creating...\n"))
    reads = _background_reads(runner, monkeypatch)
    path = f"/api/v1/jobs/{attempt.ref.job_id}/attempts/1"
    found = (await runner.app.admin.get(path)).json()
    assert (found["made"], found["last_line"]) == (
        [{"address": "a.x", "action": "creating", "id": ""}],
        "a.x: Creating...",
    )
    assert reads == ["background"]
    assert (await runner.app.stranger().get(path)).status_code == 401
    assert (await runner.app.admin.get(path[:-1] + "2")).status_code == 404


async def test_the_time_that_a_result_waited_for_the_server_does_not_count_as_time_of_the_job(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    """`Applied in 5 m 30 s`: the apply took a minute, and its result waited until the server was back."""
    attempt, began = await runner.run(kind="APPLY"), time.time()

    def told(step: Step, status: Literal["RUNNING", "SUCCEEDED"], at: float) -> Record:
        return next(events.unpack(events.pack_fact(StepStatus(step, status), step, began + at)))

    await attempt.deliver(told(Step.PLAN, "RUNNING", 0.0))
    await attempt.begin()
    clock.advance(330)
    await attempt.deliver(told(Step.APPLY, "RUNNING", 5.0), told(Step.APPLY, "SUCCEEDED", 60.0), DONE)
    [part] = (await runner.app.admin.get(f"/api/v1/jobs/{attempt.ref.job_id}")).json()["run"]
    assert part["text"] == "Applied in 1 m 00 s"


async def test_the_view_of_a_job_needs_a_thread_only_if_it_is_more_than_a_few_rows(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place in a queue and what a lost attempt has made take long to read; everything else does not."""
    rows, reads = runner.rows, _background_reads(runner, monkeypatch)
    monkeypatch.setattr(view, "MAX_BLOCKED_SECONDS", 1e6)
    running = await runner.run()
    waiting = await rows.job(await rows.module())
    own, doubtful, again, done = [await runner.run() for _ in range(4)]
    await change_modules(rows.db, own.module_id, backend="own")
    await change_attempts(rows.db, doubtful.ref.job_id, is_in_doubt=True)
    await change_jobs(rows.db, again.ref.job_id, attempt=21)
    await done.deliver(RUNNING, DONE)

    async def reads_of(job_id: str) -> int:
        reads.clear()
        assert (await runner.app.admin.get(f"/api/v1/jobs/{job_id}")).json()["id"] == job_id
        return len(reads)

    assert [await reads_of(each.ref.job_id) for each in (running, done)] == [0, 0]
    others = (waiting, own.ref.job_id, doubtful.ref.job_id, again.ref.job_id)
    assert [await reads_of(each) for each in others] == [1, 1, 1, 1]


async def test_views_that_would_block_the_event_loop_for_long_are_read_in_threads(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 300 viewers of one job read its view on the event loop at once, and nothing else was answered meanwhile."""
    if runner.server.db.kind != "sqlite":
        pytest.skip("no statement of PostgreSQL blocks the event loop")
    running, reads = await runner.run(), _background_reads(runner, monkeypatch)
    monkeypatch.setattr(view, "MAX_BLOCKED_SECONDS", 1e-6)
    monkeypatch.setattr(view, "BLOCKED_WITHIN_SECONDS", 1e6)
    path = f"/api/v1/jobs/{running.ref.job_id}"
    assert [(await runner.app.admin.get(path)).json()["id"] for _ in range(3)] == [running.ref.job_id] * 3
    assert reads == ["background"] * 2
    monkeypatch.setattr(view, "BLOCKED_WITHIN_SECONDS", 0.0)
    await runner.app.admin.get(path)
    assert reads == ["background"] * 2, "after a while, the event loop has time for a view again"


async def test_the_view_of_a_job_takes_few_statements(runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows a job gets its view whenever it changes. It took 12 statements, and 10 after its end."""
    attempt, server, statements = await runner.run(), runner.server, list[str]()
    monkeypatch.setattr(view, "loop_share", view.LoopShare())
    on_each_unit(server.db, monkeypatch, lambda tx: NotingTx(tx, statements))
    name, reader = attempt.ref.job_id, server.watch.for_reader(SYSTEM)

    async def count() -> int:
        statements.clear()
        found = await view.current(server.db, lambda tx: jobs.find(tx, SYSTEM, name, Verb.JOB_READ), reader)
        assert found.id == name
        return len(statements)

    await attempt.deliver(RUNNING)
    assert await count() == 7
    await attempt.deliver(DONE)
    assert await count() == 7


def _background_reads(runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an item for each read beside the event loop, which has not read any view yet."""
    monkeypatch.setattr(view, "loop_share", view.LoopShare())
    reads: list[str] = []
    read_in_background = runner.server.db.read_in_background

    async def read(work: Work[object]) -> object:
        reads.append("background")
        return await read_in_background(work)

    monkeypatch.setattr(runner.server.db, "read_in_background", read)
    return reads
