"""Every reason for which a job waits in the queue has a code, a text and a link, on both databases."""

import msgspec
import pytest

from terracrew import ids
from terracrew.protocol.dispatcher_choice import AllowedChoices, OfferedDispatcher
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db import kept
from terracrew.server.db.seam import Database
from terracrew.server.scheduling import crews
from tests.builders.clock import ManualClock
from tests.builders.deliveries import RUNNING, delivery
from tests.builders.job_rows import (
    change_assignments,
    change_groups,
    change_instances,
    change_jobs,
    change_modules,
    change_runners,
)
from tests.server.jobs.waiting_jobs import waiting
from tests.server.runs.waiting_queue import START, Queue, waiting_queue


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the database and of the server."""
    return ManualClock(START)


@pytest.fixture
async def queue(database: Database, clock: ManualClock) -> Queue:
    return await waiting_queue(database, clock)


@pytest.mark.feature("S6.words")
async def test_nobody_is_assigned(queue: Queue) -> None:
    await queue.set("DELETE FROM assignments")
    reason = await queue.why()
    assert (reason.code, reason.link) == ("no_assignment", "/dashboard/runners")


@pytest.mark.feature("S6.offline")
async def test_nobody_is_online_and_it_is_said_who_and_since_when(queue: Queue) -> None:
    await queue.runner.disconnect()
    reason = await queue.why()
    assert reason.code == "none_online"
    assert f"{queue.runner.runner_id} (offline since 2023-11-14 22:13 UTC)" in reason.text
    assert reason.link == f"/dashboard/runners/{queue.runner.runner_id}"
    await change_instances(queue.rows.db, is_connected=True)
    await change_runners(queue.rows.db, is_draining=True)
    assert "(draining)" in (await queue.why()).text
    await change_runners(queue.rows.db, is_disabled=True)
    assert "(disabled)" in (await queue.why()).text
    for _ in range(4):
        await queue.rows.runner()
    await change_instances(queue.rows.db, is_connected=False)
    assert " and 2 more" in (await queue.why()).text


@pytest.mark.feature("R6.reason", "S6.account")
async def test_no_runner_has_a_usable_credential(queue: Queue) -> None:
    account = ids.new("sva")
    await change_instances(queue.rows.db, is_connected=False)
    await change_runners(queue.rows.db, worker_token_sha256=None, service_account_id=account)
    assert await queue.code() == "no_credential"
    await queue.rows.insert("service_accounts", id=account, group_id=queue.rows.root, name="bot", created_by="test")
    secret = """INSERT INTO service_account_secrets (id, service_account_id, secret_sha256, created_by, created_at, expires_at)
        VALUES (:id, :account, :id, 'test', :now, CAST(:now AS double precision) + CAST(:left AS double precision))"""
    await queue.set(secret, id="expired", account=account, left=-5)
    reason = await queue.why()
    assert (reason.code, "no usable credential" in reason.text) == ("no_credential", True)
    await queue.set(secret, id="good", account=account, left=500)
    assert await queue.code() == "none_online"


@pytest.mark.feature("S6.ahead")
async def test_everybody_is_full_and_it_is_said_how_many_are_ahead(queue: Queue) -> None:
    running = await queue.rows.job(await queue.rows.module("busy"))
    await queue.runner.has(running)
    assert (await queue.why()).text == "all of its runners are full (1 slot), it is the next"
    jobs = [queue.job]
    for _ in range(4):
        queue.clock.advance(1)
        jobs.append(await queue.rows.job(await queue.rows.module()))
    reason = await queue.why(jobs[3])
    assert (reason.code, reason.text.rpartition(", ")[2]) == ("all_full", "3 jobs ahead of it")
    await change_jobs(queue.rows.db, jobs[3], priority=5)
    assert (await queue.why(jobs[3])).text.endswith("it is the next")


@pytest.mark.feature("S6.ahead")
async def test_jobs_that_this_runner_cannot_take_are_not_ahead(queue: Queue) -> None:
    module = await queue.rows.module("elsewhere")
    await change_assignments(queue.rows.db, kind="module", place_id=module, path="elsewhere")
    await queue.rows.runner(slots=1, assigned=False)
    await change_instances(queue.rows.db, queue.runner.id, capacity=0)
    queue.clock.advance(1)
    assert (await queue.why(await queue.rows.job(module))).text.endswith("it is the next")


@pytest.mark.feature("S6.ahead")
async def test_a_full_pinned_instance_and_full_holders_of_an_engine_say_how_many_are_ahead(queue: Queue) -> None:
    """A full pinned instance, or full holders of the engine, read as "being offered" while other instances had free slots."""
    await queue.runner.has(await queue.rows.job(await queue.rows.module("busy")))
    other = await queue.rows.runner()
    await change_instances(queue.rows.db, other.id, name="two", engines={})
    assert (await queue.why()).text == "all of its runners with the engine tofu are full (1 slot), it is the next"
    queue.clock.advance(1)
    module = await queue.rows.module("pinned")
    pinned = await queue.rows.job(module)
    await change_modules(queue.rows.db, module, runner_instance_name="one")
    text = "the instance one, to which it is pinned, is full (1 slot), 1 job ahead of it"
    assert (await queue.why(pinned)).text == text
    await change_modules(queue.rows.db, queue.module, tags=["gpu"])
    assert (await queue.why(pinned)).text.endswith("it is the next"), "this instance may not have the other job"


@pytest.mark.feature("S5.tags")
async def test_a_missing_tag_is_named(queue: Queue) -> None:
    await change_modules(queue.rows.db, tags=["eu", "gpu"])
    await change_runners(queue.rows.db, tags=["gpu"])
    reason = await queue.why()
    assert reason.code == "wrong_tag"
    assert f"has all of the tags eu, gpu: {queue.runner.runner_id} lacks eu;" in reason.text
    await change_runners(queue.rows.db, tags=["gpu", "eu"])
    assert await queue.code() == "offered"


@pytest.mark.feature("S5.caps")
async def test_a_full_group_is_named_with_its_numbers(queue: Queue) -> None:
    await queue.runner.has(await queue.rows.job(await queue.rows.module("busy")))
    await change_groups(queue.rows.db, max_running_jobs=1)
    reason = await queue.why()
    assert (reason.code, reason.text) == ("capped", "the organization may run 1 job at once, and 1 is running")
    await change_groups(queue.rows.db, max_running_jobs=2)
    assert await queue.code() == "all_full"


@pytest.mark.feature("S6.busy")
async def test_another_job_of_the_module_goes_first(queue: Queue) -> None:
    second = await queue.rows.job(queue.module)
    assert (await queue.why(second)).link == f"/dashboard/jobs/{queue.job}"
    await queue.runner.has(queue.job)
    busy = await queue.why(second)
    assert (busy.code, busy.text) == ("module_busy", "the module is busy with job #1")
    assert busy.since is not None


@pytest.mark.feature("S4.instance", "S6.pinned")
async def test_the_pinned_instance_is_absent_or_lacks_the_engine(queue: Queue) -> None:
    await change_modules(queue.rows.db, runner_instance_name="other")
    assert (await queue.why()).text.startswith("it is pinned to the instance other, which is not connected")
    await change_modules(queue.rows.db, runner_instance_name="one", engine="pulumi")
    assert await queue.code() == "no_engine"
    await change_modules(queue.rows.db, engine="cobol")
    assert (await queue.why()).text.startswith(
        "the instance one, to which it is pinned, does not have the engine cobol"
    )
    await change_modules(queue.rows.db, runner_instance_name=None)
    absent = "no online runner has the engine cobol: install the package that provides it there"
    assert (await queue.why()).text == absent
    await change_modules(queue.rows.db, runner_id=queue.runner.runner_id)
    assert (await queue.why()).text.startswith("the runner that it may use does not have the engine cobol")
    await change_modules(queue.rows.db, runner_id=None)
    await change_instances(queue.rows.db, engines={"cobol": "3"})
    assert await queue.code() == "offered"


def offered(*dispatchers: OfferedDispatcher) -> str:
    return msgspec.json.encode(dispatchers).decode()


@pytest.mark.feature("D1.asked", "S6.words")
async def test_no_runner_offers_the_dispatcher_or_allows_what_the_job_asks_for(queue: Queue) -> None:
    await change_jobs(queue.rows.db, dispatcher={"name": "kubernetes", "image": "evil/a:1", "memory_mb": 512})
    why = await queue.why()
    assert (why.code, why.link) == ("no_dispatcher", "/dashboard/runners")
    assert why.text == (
        "no online runner that is assigned here offers the dispatcher kubernetes (offered: nothing): change the setting "
        "dispatcher, or the runner"
    )
    local = OfferedDispatcher("default", "local", engines={"tofu": ["1.12.6"]})
    await change_instances(queue.rows.db, dispatchers=offered(local))
    assert (await queue.why()).text == (
        "no online runner that is assigned here offers the dispatcher kubernetes (offered: default, local): change the "
        "setting dispatcher, or the runner"
    )
    small = OfferedDispatcher("a", "kubernetes", AllowedChoices(max_memory_mb=64), {"tofu": ["1.12.6"]})
    big = OfferedDispatcher("b", "kubernetes", AllowedChoices(["team/*", "crew/**"], 512), {"pulumi": ["3.0.0"]})
    await change_instances(queue.rows.db, dispatchers=offered(local, small, big))
    assert (await queue.why()).text == (
        "no online runner that is assigned here offers the dispatcher kubernetes with the image evil/a:1 (allowed: team/*, "
        "crew/**): change the setting dispatcher, or the allow-list of the runner"
    )
    await change_jobs(queue.rows.db, dispatcher={"name": "b", "memory_mb": 512})
    assert await queue.code() == "no_engine"
    assert (await queue.why()).text.startswith("no online runner has the engine tofu for the dispatcher b: ")
    await change_jobs(queue.rows.db, dispatcher={"name": "kubernetes", "memory_mb": 64})
    assert await queue.code() == "offered"
    await change_instances(queue.rows.db, capacity=0)
    assert await queue.code() == "all_full"


@pytest.mark.feature("J4.version", "S6.words")
async def test_no_runner_has_the_version_of_the_engine(queue: Queue) -> None:
    await change_modules(queue.rows.db, engine_version="~> 1.13.2")
    assert await queue.code() == "no_engine"
    assert (await queue.why()).text == (
        "no online runner has the engine tofu ~> 1.13.2: `terracrew engine install tofu --version 1.13.2` there, "
        'or set engine.install = "on-demand" for it'
    )
    await change_modules(queue.rows.db, engine_version="> 1.13.2")
    assert "Terracrew installs no such version" in (await queue.why()).text
    await change_jobs(queue.rows.db, pinned_engine_version="1.13.3")
    assert "its first attempt was given this version" in (await queue.why()).text


@pytest.mark.feature("J8.same", "S6.offline")
async def test_the_runner_that_made_the_plan_is_offline_or_removed(queue: Queue) -> None:
    await queue.runner.has(queue.job)
    await queue.rows.take(delivery(AttemptRef(queue.job, 1), 1, RUNNING, waiting()))
    await change_jobs(queue.rows.db, status="QUEUED", attempt=2, instance_id=None)
    other = await queue.rows.runner()
    await change_instances(queue.rows.db, other.id, engines={"tofu": "1.12.6"})
    assert await queue.code() == "offered"
    await change_instances(queue.rows.db, queue.runner.id, is_connected=False)
    offline = await queue.why()
    assert (offline.code, queue.runner.runner_id in offline.text) == ("plan_runner", True)
    await queue.set("DELETE FROM assignments WHERE runner_id = :id", id=queue.runner.runner_id)
    assert await queue.code() == "offered", "that runner serves the module no longer, so another one makes a new plan"
    await queue.set("DELETE FROM instances WHERE id = :id", id=queue.runner.id)
    await queue.set("DELETE FROM runners WHERE id = :id", id=queue.runner.runner_id)
    assert await queue.code() == "offered", "nobody can use that plan any more, so another runner makes a new one"


@pytest.mark.feature("S6.words")
async def test_a_runner_with_a_full_disk_is_not_called_draining(queue: Queue) -> None:
    """A runner that took no jobs because its disk was full was called "draining", as if somebody had asked for that."""
    await change_instances(queue.rows.db, queue.runner.id, is_draining=True, is_disk_full=True)
    assert "(its disk is full)" in (await queue.why()).text
    await change_runners(queue.rows.db, is_draining=True)
    assert "(draining)" in (await queue.why()).text


async def test_a_large_crew_is_kept_for_a_moment_and_renewed_while_somebody_asks(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list of jobs took tens of milliseconds to sum up the thousands of runners that serve a whole organization."""
    root = await queue.rows.db.read(lambda tx: tx.one("SELECT place_id FROM assignments"))
    assert root is not None
    key = crews.CrewNeeds(str(root["place_id"]), "", "tofu")

    async def crew() -> crews.Crew:
        return (await queue.rows.db.read(lambda tx: crews.crews(tx, {key})))[key]

    assert (await crew()).online == 1
    monkeypatch.setattr(crews, "MIN_KEPT_RUNNERS", 1)
    monkeypatch.setattr(kept, "KEPT_SECONDS", 1_000.0)
    assert (await crew()).online == 1
    await queue.runner.disconnect()
    assert (await crew()).online == 1
    await crews.LARGE_CREWS.renew(queue.rows.db)
    assert (await crew()).online == 0
    await queue.rows.runner()
    monkeypatch.setattr(kept, "KEPT_SECONDS", 0.0)
    assert (await crew()).online == 1
