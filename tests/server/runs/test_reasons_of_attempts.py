"""Every reason for which a job that a runner has, or had, does not proceed has a code, a text and a link, on both databases."""

from datetime import timedelta

import pytest

from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import heartbeats
from terracrew.server.db.seam import Database
from terracrew.server.jobs import decide, service
from terracrew.server.runs import attempt_report
from tests.builders.clock import ManualClock
from tests.builders.job_rows import change_attempts, change_jobs
from tests.server.runs.waiting_queue import LEASE, START, Queue, waiting_queue


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the database and of the server."""
    return ManualClock(START)


@pytest.fixture
async def queue(database: Database, clock: ManualClock) -> Queue:
    return await waiting_queue(database, clock)


@pytest.mark.feature("S6.words")
async def test_a_job_that_is_not_heard_says_since_when_in_the_same_words(queue: Queue) -> None:
    await queue.runner.has(queue.job)
    assert await queue.code() == "offered", "nothing is wrong yet"
    claimed_at = (await queue.rows.attempts(queue.job))[0].claimed_at
    queue.clock.advance(30)
    first = await queue.why()
    queue.clock.advance(10)
    assert await queue.why() == first
    assert (first.code, first.since) == ("silent", claimed_at)
    assert "queued again" in first.text


@pytest.mark.feature("D6.watched", "S6.words")
async def test_an_executor_that_is_not_heard_although_its_runner_is_says_so(queue: Queue) -> None:
    """Symptom: the node of a pod had vanished, and the job was PROCESSING for hours without a word."""
    ref = AttemptRef(queue.job, 1)
    await queue.runner.has(queue.job)
    await queue.rows.db.write(lambda tx: heartbeats.executor_came(tx, ref, "srv_1"))
    since = queue.clock()
    await change_jobs(queue.rows.db, queue.job, status="PROCESSING")
    for _ in range(4):
        queue.clock.advance(10)
        await queue.runner.heartbeat(ref)
    reason = await queue.why()
    assert (reason.code, "no contact with its executor" in reason.text) == ("silent", True)
    assert reason.since is not None
    assert reason.since.timestamp() == pytest.approx(since)
    queue.restart_server()
    assert await queue.code() == "offered", "a server that has just started has heard nobody yet"
    queue.clock.advance(5)
    await queue.rows.db.write(lambda tx: heartbeats.executor_came(tx, ref, "srv_2"))
    queue.clock.advance(10)
    assert await queue.code() == "offered", "another server hears it"


@pytest.mark.feature("O6.blameless", "S6.words")
async def test_after_a_server_start_whoever_has_the_job_has_a_minute(queue: Queue) -> None:
    await queue.runner.has(queue.job)
    queue.clock.advance(300)
    queue.restart_server()
    queue.clock.advance(5)
    reason = await queue.why()
    assert reason.code == "settling"
    assert reason.until is not None
    queue.clock.advance(50)
    assert await queue.code() == "silent"


@pytest.mark.feature("O6.blameless", "S6.words")
async def test_after_a_server_start_runners_are_on_their_way_back(queue: Queue) -> None:
    await queue.runner.disconnect()
    queue.clock.advance(20)
    assert await queue.code() == "none_online"
    queue.restart_server()
    queue.clock.advance(5)
    assert await queue.code() == "settling"
    queue.clock.advance(100)
    assert await queue.code() == "none_online"


@pytest.mark.feature("O3.lease", "S6.words")
async def test_a_lost_job_says_since_when_and_until_when_it_is_waited_for(queue: Queue) -> None:
    await queue.lose()
    lost = await queue.why()
    assert lost.code == "lost"
    assert lost.since is not None
    assert lost.until == lost.since + LEASE
    assert lost.link == f"/dashboard/jobs/{queue.job}#lost"
    behind = await queue.why(await queue.rows.job(queue.module))
    assert (behind.code, "still holds the lock" in behind.text) == ("module_busy", True)
    await change_jobs(queue.rows.db, queue.job, cancel_mode="kill")
    assert "is canceled" in (await queue.why()).text


@pytest.mark.feature("O3.fenced", "S6.words")
async def test_a_state_in_quarantine_stands_before_everything(queue: Queue) -> None:
    await queue.set(
        """INSERT INTO states (id, module_id, status, job_id, attempt, event, origin, serial, lineage, sha256, size, content,
            created_at) VALUES ('sta_1', :module, 'quarantined', :job, 1, 1, 'engine', 2, 'x', 'x', 1, :x, :now)""",
        module=queue.module,
        job=queue.job,
        x=b"x",
    )
    reason = await queue.why()
    assert (reason.code, reason.link) == ("quarantine", f"/dashboard/jobs/{queue.job}#quarantine")


@pytest.mark.feature("O3.fenced", "S6.words")
async def test_a_job_that_may_not_begin_beside_a_fenced_attempt_that_is_heard_says_so(queue: Queue) -> None:
    await queue.lose()
    ref = AttemptRef(queue.job, 1)
    long_ago = timedelta(0)
    await service.settle(
        queue.rows.db,
        ref,
        lambda job, attempt, now: decide.lost(job, attempt, decide.LastContact(now - LEASE, True), now, long_ago),
    )
    await queue.runner.has(queue.job, 2)
    assert await queue.code() == "offered", "nobody hears the first one"
    await queue.runner.heartbeat(ref)
    reason = await queue.why()
    assert (reason.code, "which was given up, is in contact again" in reason.text) == ("in_doubt", True)


@pytest.mark.feature("O3.doubt", "S6.words")
async def test_what_is_known_of_an_attempt_tells_whether_a_state_may_be_missing(queue: Queue) -> None:
    await queue.lose()
    first = await queue.rows.db.read(lambda tx: attempt_report.report(tx, queue.job, 1))
    assert (first.may_miss_state, first.states, first.last_line, first.step) == (True, 0, "", None)
    step = """INSERT INTO steps (job_id, attempt, name, status, started_at) VALUES (:id, 1, 'apply', 'RUNNING', :now)
        ON CONFLICT (job_id, attempt, name) DO NOTHING"""
    await queue.set(step, id=queue.job)
    running = await queue.rows.db.read(lambda tx: attempt_report.report(tx, queue.job, 1))
    assert (running.may_miss_state, running.step) == (True, "apply")
    await queue.set("UPDATE steps SET status = 'FAILED'")
    cut = await queue.rows.db.read(lambda tx: attempt_report.report(tx, queue.job, 1))
    assert cut.may_miss_state, "its engine was killed, and the step says no more than that it failed"
    await change_attempts(queue.rows.db, is_change_ended=True)
    assert not (await queue.rows.db.read(lambda tx: attempt_report.report(tx, queue.job, 1))).may_miss_state
