"""Prometheus reads the figures on which operators set alerts."""

import asyncio
import time
from collections import Counter
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from terracrew import __version__
from terracrew.protocol.events import Result
from terracrew.server.api.metrics import gauges
from terracrew.server.jobs import service
from terracrew.server.jobs.decide import LastContact, give_up, lost
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, fact, log
from tests.builders.job_rows import change_modules
from tests.server.application import metrics_headers, on_one
from tests.server.jobs.waiting_jobs import waiting
from tests.server.simulated_runner import SimulatedRunner

SILENCE = timedelta(minutes=5)
Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture(autouse=True)
def fresh_gauges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "FRESH_SECONDS", 0.0)


async def scraped(runner: SimulatedRunner) -> Samples:
    answer = await runner.app.stranger().get("/metrics", headers=metrics_headers(runner.server))
    assert answer.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def grown(before: Samples, after: Samples, name: str, *labels: str) -> float:
    return after[name, labels] - before.get((name, labels), 0.0)


async def test_jobs_their_waits_and_what_they_deliver_are_counted(runner: SimulatedRunner) -> None:
    before = await scraped(runner)
    attempt = await runner.run()
    await attempt.deliver(RUNNING, log("one\ntwo\n"))
    await attempt.deliver(DONE)
    after = await scraped(runner)
    for name, labels in (
        ("terracrew_job_queue_wait_seconds_count", ()),
        ("terracrew_job_start_wait_seconds_count", ()),
        ("terracrew_jobs_ended_total", ("PLAN", "SUCCEEDED")),
        ("terracrew_job_duration_seconds_count", ("PLAN", "SUCCEEDED")),
        ("terracrew_attempts_ended_total", ("succeeded",)),
    ):
        assert grown(before, after, name, *labels) == 1, name
    assert grown(before, after, "terracrew_ingest_batches_total") == 2
    assert grown(before, after, "terracrew_ingest_events_total") == 3
    assert grown(before, after, "terracrew_ingest_log_bytes_total") >= len("one\ntwo\n")
    assert grown(before, after, "terracrew_database_commit_seconds_count") >= 4
    assert after["terracrew_database_up", ()] == 1
    assert after["terracrew_database_waiting_writes", ()] == 0
    assert after["terracrew_jobs", ("QUEUED",)] == 0
    assert after["terracrew_servers", (__version__,)] == 1
    assert after["terracrew_runners", ("ONLINE",)] == 1
    assert after["terracrew_runner_slots", ()] == 100
    assert sum(value for (name, _), value in after.items() if name == "terracrew_runner_instances") == 1
    assert after["terracrew_gauges_age_seconds", ()] < 5


async def test_losses_and_doubts_are_counted_when_they_are_committed(runner: SimulatedRunner) -> None:
    """There was nothing to alert on: no figure said that attempts were lost or modules in doubt."""
    before = await scraped(runner)
    attempt = await runner.begun()
    db = runner.server.db
    await service.settle(
        db, attempt.ref, lambda job, own, now: lost(job, own, LastContact(now - SILENCE, is_closed=True), now)
    )
    during = await scraped(runner)
    assert grown(before, during, "terracrew_attempts_lost_total") == 1
    assert during["terracrew_jobs_waiting", ("lost",)] == during["terracrew_attempts_lost_now", ()] == 1
    await service.settle(
        db, attempt.ref, lambda job, own, now: give_up(job, own, LastContact(now - SILENCE, is_closed=True), "ada", now)
    )
    after = await scraped(runner)
    assert grown(before, after, "terracrew_attempts_in_doubt_total") == 1
    assert grown(before, after, "terracrew_attempts_ended_total", "lost") == 1
    assert grown(before, after, "terracrew_jobs_requeued_total") == 1
    assert after["terracrew_modules_in_doubt", ()] == 1
    assert after["terracrew_attempts_lost_now", ()] == 0


async def test_waiting_jobs_are_counted_by_reason_for_all_of_them_at_once(runner: SimulatedRunner) -> None:
    module, other = await runner.rows.module("busy"), await runner.rows.module("free")
    await change_modules(runner.rows.db, other, engine="pulumi")
    await runner.run(module)
    for _ in range(3):
        await runner.rows.job(module)
    await runner.rows.job(other)
    await runner.rows.job(other)
    found = await scraped(runner)
    assert found["terracrew_jobs", ("QUEUED",)] == 5
    assert found["terracrew_jobs", ("CLAIMED",)] == 1
    assert found["terracrew_jobs_waiting", ("module_busy",)] == 3
    assert found["terracrew_jobs_waiting", ("no_engine",)] == 2
    assert found["terracrew_job_oldest_queued_seconds", ()] >= 0
    waiting = {labels[0]: value for (name, labels), value in found.items() if name == "terracrew_jobs_waiting"}
    assert sum(waiting.values()) == 5
    assert "other" in waiting
    jobs = (await runner.app.admin.get("/api/v1/jobs?active=true&status=QUEUED")).json()["items"]
    shown = Counter(job["reason"]["code"] for job in jobs)
    assert shown == {reason: count for reason, count in waiting.items() if count}, "the same as on the jobs' pages"


async def test_plans_that_wait_and_states_in_quarantine_are_counted(
    runner: SimulatedRunner, clock: ShiftedClock
) -> None:
    attempt = await runner.run(kind="APPLY")
    await attempt.deliver(RUNNING, waiting())
    clock.advance(3600)
    found = await scraped(runner)
    assert found["terracrew_approvals_waiting", ()] == found["terracrew_jobs_waiting", ("approval",)] == 1
    assert 3600 <= found["terracrew_approval_oldest_waiting_seconds", ()] < 3700
    assert found["terracrew_states_quarantined", ()] == 0


async def test_changes_are_counted_by_what_was_done(runner: SimulatedRunner) -> None:
    before = await scraped(runner)
    await runner.app.admin.made("/api/v1/groups", {"path": "net"})
    assert grown(before, await scraped(runner), "terracrew_audited_changes_total", "group.create") == 1


async def test_a_delivery_that_is_not_stored_changes_no_figure(runner: SimulatedRunner) -> None:
    attempt = await runner.run()
    await attempt.deliver(RUNNING)
    before = await scraped(runner)
    with pytest.raises(Exception, match="is missing"):
        await attempt.deliver(fact(Result("SUCCEEDED")), first=9)
    after = await scraped(runner)
    assert grown(before, after, "terracrew_ingest_batches_total") == 0
    assert grown(before, after, "terracrew_jobs_ended_total", "PLAN", "SUCCEEDED") == 0


@on_one
async def test_a_scrape_does_not_freeze_the_server_while_many_jobs_wait(runner: SimulatedRunner) -> None:
    await runner.rows.many_jobs([await runner.rows.module() for _ in range(20)], 20_000)
    worst = 0.0
    queued = None
    while queued is None:  # a scrape does not wait longer than two seconds; a later one has the figures then
        scraping = asyncio.create_task(scraped(runner))
        while not scraping.done():
            before = time.thread_time()  # of the loop's thread alone, however busy the machine is
            await asyncio.sleep(0.001)
            worst = max(worst, time.thread_time() - before)
        queued = (await scraping).get(("terracrew_jobs", ("QUEUED",)))
    assert queued == 20_000
    assert worst < 0.2, "the queries ran on the event loop"
