"""The hub ends the connections that must end, keeps the others, and tells each client what concerns it."""

import asyncio
import contextlib
import re
import time

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from terracrew.protocol import events, frames, messages
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step
from terracrew.server.connections import socket as hub_socket
from terracrew.server.connections.withheld import WithheldJobs
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.jobs import service
from terracrew.server.retention.deletion import remove_deleted
from terracrew.server.tree.modules import service as removal
from tests.builders.job_rows import change_instances, change_jobs, change_runners
from tests.builders.transactions import until_blocked
from tests.server.application import on_one
from tests.server.hub.hub_clients import TIMEOUT_SECONDS, Hub, on_postgres, ref_of, refusal


def batch(first: int, *texts: str) -> bytes:
    records = [events.pack(events.Kind.LOG, events.Stream.OUTPUT, Step.PLAN, 1.0, text.encode()) for text in texts]
    return frames.pack(first, len(records), b"".join(records))


# ---- a database that is away


@pytest.mark.feature("O6.database")
async def test_an_executor_that_comes_while_the_database_is_away_may_come_again(hub: Hub) -> None:
    """It was told that it was refused for good, and every job that ran through an outage of the database died."""
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
    await hub.server.db.close()
    async with hub.connected(granted.credentials.hub) as client:
        assert await refusal(client) == ("unavailable", False)


@pytest.mark.feature("J15.lock", "O6.database")
async def test_an_executor_that_asks_for_leave_while_the_database_is_away_may_ask_again(hub: Hub) -> None:
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job("APPLY"))
        async with hub.executor(granted) as executor:
            await hub.server.db.close()
            await executor.send(messages.Begin(0))
            assert await refusal(executor) == ("unavailable", False)


@pytest.mark.feature("C4.acknowledged", "O6.database")
async def test_what_could_not_be_stored_is_asked_for_again_and_nobody_gives_up(hub: Hub) -> None:
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        async with hub.executor(granted) as executor:
            await hub.server.db.close()
            for number in range(1, 20):  # a chatty one: more is on its way when the first is refused
                await executor.connection.send(batch(number, "line\n"))
            assert await refusal(executor) == ("unavailable", False)


# ---- what is told, though the wake-up was lost


@pytest.mark.feature("C2.cancellation", "C2.superseded", "J9.modes", "O3.fenced")
async def test_an_executor_learns_of_its_cancellation_and_its_successor_though_the_wake_up_was_lost(hub: Hub) -> None:
    messenger = HubNotifier(hub.server.hub.runners)
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        async with hub.executor(granted) as executor:
            await service.cancel(hub.server.db, hub.crew.app.admin.principal, granted.spec.job_id, "interrupt")
            await messenger.step({("cancel", "")})
            assert (await executor.get())["mode"] == "interrupt"
            await hub.crew.rows.gone(ref_of(granted))
            for _ in range(2):
                await messenger.sweep()
            assert (await executor.get())["type"] == "superseded"
            await executor.send(messages.Begin(0))
            assert (await executor.get())["type"] == "begin_refused", "and nothing was told twice"


@pytest.mark.feature("R7.drain", "S5.draining")
async def test_a_heartbeat_does_not_open_a_runner_that_its_record_has_closed(hub: Hub) -> None:
    """The next heartbeat of a drained runner made the scheduler choose it for every job that its next tier should have had."""
    messenger = HubNotifier(hub.server.hub.runners)
    async with hub.runner() as runner:
        await change_runners(hub.server.db, is_draining=True)
        await messenger.step({("runners", hub.runner_id)})
        assert (await runner.get())["on"] is True
        await runner.send(messages.Heartbeat("0.1.0", is_draining=False, attempts=[]))
        await runner.send(messages.HandBack("job_" + "0" * 32, 1, "an answer says that all before it was heard"))
        await runner.get("settled")
        assert not hub.session().takes_jobs


@pytest.mark.feature("R7.drain", "S5.draining")
async def test_a_runner_that_was_drained_when_it_came_is_told_when_it_is_not_any_more(hub: Hub) -> None:
    """It heard of the drain in its welcome and of nothing after it, and never claimed again."""
    await change_runners(hub.server.db, is_draining=True)
    async with hub.connected(await hub.token()) as runner:
        assert (await runner.ask(hub.hello()))["is_draining"] is True
        await change_runners(hub.server.db, is_draining=False)
        await HubNotifier(hub.server.hub.runners).step({("runners", "")})
        assert await runner.get() == {"type": "drain", "on": False}
        assert hub.session().takes_jobs


# ---- credentials


@pytest.mark.feature("A6.renewal")
async def test_a_connection_ends_with_its_token_unless_that_is_renewed(hub: Hub) -> None:
    async with hub.runner() as runner:
        session = hub.session()
        session.principal = msgspec.structs.replace(session.principal, expires_at=1.0)
        await runner.send(messages.Renew(await hub.token()))
        await hub.until(lambda: session.principal.expires_at != 1.0)
        await HubNotifier(hub.server.hub.runners).sweep()
        assert hub.session() is session
        session.principal = msgspec.structs.replace(session.principal, expires_at=1.0)
        await HubNotifier(hub.server.hub.runners).sweep()
        assert await refusal(runner) == ("unauthenticated", True)


@pytest.mark.feature("A6.revocation", "X2.enforced")
@pytest.mark.parametrize("key", ["its own", ""])
async def test_a_revoked_runner_is_not_heard_any_more_whether_it_reads_or_not(hub: Hub, key: str) -> None:
    job = await hub.job()
    async with hub.runner() as runner:
        await change_runners(hub.server.db, worker_token_sha256="another")
        await HubNotifier(hub.server.hub.runners).step({("access", hub.runner_id if key else "")})
        with contextlib.suppress(ConnectionClosed):  # the refusal may already be here
            await runner.send(messages.Credits(1, 0))
        await hub.until(lambda: not hub.server.registry.runners)
        assert (await hub.crew.rows.load(job)).status == "QUEUED"
        assert await refusal(runner) == ("unauthenticated", True)


# ---- sizes and floods


@on_one
async def test_a_text_frame_of_more_than_a_megabyte_is_refused(hub: Hub) -> None:
    async with hub.runner() as runner:
        many = [AttemptRef("job_" + "0" * 32, number) for number in range(25_000)]
        await runner.send(messages.Heartbeat("0.1.0", is_draining=False, attempts=many))
        assert await refusal(runner) == ("too_large", True)
    async with hub.runner() as runner:
        await runner.connection.send(messages.encode(messages.Heartbeat("0.1.0", is_draining=False, attempts=[])))
        assert await refusal(runner) == ("invalid", True)


@on_one
async def test_whoever_never_says_hello_is_sent_away(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_socket, "HELLO_SECONDS", 0.05)
    async with hub.connected(await hub.token()) as client:
        assert await refusal(client) == ("invalid", True)


@on_postgres
@pytest.mark.feature("L3.complete", "X4.bounded")
async def test_an_executor_that_is_faster_than_the_database_has_to_wait(hub: Hub) -> None:
    """Its frames were kept in memory without end."""
    text, count = "x" * 500_000, 200
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job())
        async with hub.executor(granted) as executor:

            async def flood() -> None:
                for number in range(1, count + 1):
                    await executor.connection.send(batch(number, text))

            async with hub.stalled():
                flooding = asyncio.create_task(flood())
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(flooding), 1)
            await flooding
            while (await executor.get("ack"))["mark"] < count:
                pass


# ---- grants and reports


@on_postgres
@pytest.mark.feature("O3.requeued", "S3.first")
async def test_a_grant_whose_runner_has_gone_is_handed_back_at_once(hub: Hub) -> None:
    job = await hub.job()
    async with hub.runner() as runner, hub.stalled():
        runner.begin_claim(job)
        await until_blocked(hub.server.db)
        await runner.connection.close()
        await hub.until(lambda: not hub.server.registry.runners)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (await hub.crew.rows.load(job)).attempt == 1:
            pass
    (first,) = await hub.crew.rows.attempts(job)
    assert (first.outcome, first.reason) == ("handed_back", "its runner had gone before the grant was sent")


async def test_a_report_on_a_job_that_was_deleted_is_settled_and_the_connection_stays(hub: Hub) -> None:
    """The runner was refused, came again, said it again, and never served another job."""
    module = await hub.crew.rows.module()
    async with hub.runner() as runner:
        granted = await runner.granted(await hub.job(module_id=module))
        await hub.crew.rows.gone(ref_of(granted))
        await hub.server.db.write(lambda tx: removal.hide(tx, module))
        for _ in range(2):  # the first pass cancels the job, which was queued again
            await remove_deleted(hub.server.db)
        await runner.send(messages.Gone(granted.spec.job_id, 1, saw_process=True, reason="killed"))
        assert (await runner.get())["type"] == "settled"
        await runner.granted(await hub.job())


@pytest.mark.feature("S3.first")
async def test_a_claim_that_fails_unexpectedly_gives_back_its_slot_and_is_made_again_later(hub: Hub) -> None:
    """An error that was none of ours left the claim undecided for ever: nobody else got the job."""
    job = await hub.job()

    async def set_source(text: str) -> None:
        await change_jobs(hub.server.db, job, source=text)

    async with hub.runner() as runner:
        source = await hub.crew.app.scalar("SELECT source FROM jobs WHERE id = :id", id=job)
        await set_source("no JSON at all")
        await change_instances(hub.server.db, hub.crew.instance.id, is_connected=False)  # no other runner is nearer
        await hub.until(lambda: hub.session().takes_jobs)
        await runner.send(messages.Credits(1, 0))
        await hub.until(lambda: hub.session().credits == 1)
        await hub.server.scheduler.sweep()
        await hub.until(lambda: hub.server.registry.withheld.is_withheld(job))
        await hub.until(lambda: hub.session().credits == 1)
        await set_source(source)
        hub.server.registry.withheld = WithheldJobs(lambda: 0.0)  # the time until the next try has passed
        await hub.server.scheduler.sweep()
        assert (await runner.get("granted"))["spec"]["job_id"] == job


@pytest.mark.feature("O2.draining", "U1.instances")
async def test_a_full_disk_is_shown_as_the_reason_why_a_runner_takes_no_jobs(hub: Hub) -> None:
    """The list, the page and the API called such a runner "draining" and nothing else."""

    async def shown() -> tuple[str, bool]:
        answer = await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")
        (instance,) = answer.json()["instances"]
        return instance["status"], instance["is_disk_full"]

    async with hub.runner(is_draining=True, is_disk_full=True) as runner:
        assert await shown() == ("DRAINING", True)
        page = (await hub.crew.app.admin.get("/dashboard/runners")).text
        assert "its disk is full" in page
        await runner.send(messages.Heartbeat("0.1.0", is_draining=True, attempts=[]))
        await hub.until(lambda: not hub.session().is_disk_full)
        async with asyncio.timeout(10):
            while await shown() != ("DRAINING", False):
                await asyncio.sleep(0.01)


@pytest.mark.feature("O2.notices", "U1.instances")
async def test_what_announced_the_end_of_a_machine_is_shown_until_it_is_withdrawn(hub: Hub) -> None:
    ends_at = time.time() + 119

    async def shown() -> tuple[str, str, str | None]:
        answer = await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")
        (instance,) = answer.json()["instances"]
        return instance["status"], instance["drain_reason"], instance["ends_at"]

    async with hub.runner(is_draining=True, drain_reason="rebalance recommendation") as runner:
        assert await shown() == ("DRAINING", "rebalance recommendation", None)
        spot = messages.Heartbeat("0.1.0", True, [], drain_reason="spot notice", ends_at=ends_at)
        await runner.send(spot)
        await hub.until(lambda: hub.session().ends_at == ends_at)
        async with asyncio.timeout(10):
            while (await shown())[1] != "spot notice":
                await asyncio.sleep(0.01)
        assert (await shown())[2] is not None
        for page in ("runners", f"runners/{hub.runner_id}"):
            text = (await hub.crew.app.admin.get(f"/dashboard/{page}")).text
            assert "spot notice" in text
            assert re.search(r"ends in <[^>]*>1 m 5\d s<", text), text
        await runner.send(messages.Heartbeat("0.1.0", is_draining=False, attempts=[]))
        async with asyncio.timeout(10):
            while await shown() != ("ONLINE", "", None):
                await asyncio.sleep(0.01)


@on_one
@pytest.mark.parametrize(
    "heartbeat",
    [
        messages.Heartbeat("1", True, [], drain_reason="x" * 101),
        messages.Heartbeat("1", True, [], drain_reason="spot\x1b[2J"),
        messages.Heartbeat("1", True, [], drain_reason="spot notice", ends_at=1e300),
        messages.Heartbeat("1", True, [], drain_reason="spot notice", ends_at=-1.0),
    ],
)
async def test_an_end_that_cannot_be_shown_is_refused(hub: Hub, heartbeat: messages.Heartbeat) -> None:
    async with hub.runner() as runner:
        await runner.send(heartbeat)
        assert await refusal(runner) == ("invalid", True)


@pytest.mark.feature("C3.heartbeat", "V1.reported")
async def test_the_version_in_a_heartbeat_is_stored(hub: Hub) -> None:
    """Only the version of the hello was stored: a runner that reported another one was shown with the old one."""

    async def version() -> str:
        found = (await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")).json()
        assert found["version"] == found["instances"][0]["version"]
        return found["version"]

    async with hub.runner() as runner:
        assert await version() != "9.8.7"
        await runner.send(messages.Heartbeat("9.8.7", is_draining=False, attempts=[]))
        async with asyncio.timeout(10):
            while await version() != "9.8.7":
                await asyncio.sleep(0.01)
        assert hub.session().takes_jobs


@on_one
@pytest.mark.feature("C3.heartbeat")
@pytest.mark.parametrize("version", ["9" * 101, "9.8\x1b[2J"])
async def test_a_heartbeat_with_a_version_that_cannot_be_shown_is_refused(hub: Hub, version: str) -> None:
    async with hub.runner() as runner:
        await runner.send(messages.Heartbeat(version, is_draining=False, attempts=[]))
        assert await refusal(runner) == ("invalid", True)


@pytest.mark.feature("U1.instances", "X4.isolation")
@pytest.mark.parametrize("isolation", ["", "landlock", "none", "unavailable", "a kind that only a newer runner knows"])
async def test_a_runner_without_isolation_is_shown_as_such(hub: Hub, isolation: str) -> None:
    """A hello with a kind of isolation that the server did not know was refused, although hellos may have new values."""
    async with hub.runner(isolation=isolation):
        answer = await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")
        assert answer.json()["instances"][0]["isolation"] == isolation
        page = (await hub.crew.app.admin.get("/dashboard/runners")).text
        assert ("modules not isolated" in page) == (isolation in ("none", "unavailable"))


@on_postgres
@pytest.mark.feature("C4.idempotent")
async def test_a_report_that_is_repeated_while_the_database_is_slow_is_decided_once(hub: Hub) -> None:
    """Every repetition of a report waited for the database on its own, until nothing else of the runner was read."""
    async with hub.runner() as runner:
        ref = ref_of(await runner.granted(await hub.job()))
        session = hub.session()
        async with hub.stalled():
            for _ in range(300):
                await runner.send(messages.Gone(ref.job_id, ref.attempt, saw_process=False, reason="killed"))
            await runner.send(messages.Heartbeat("0.1.0", is_draining=True, attempts=[]))
            await hub.until(lambda: session.is_draining)
            assert session.ending == {ref}
        await runner.get("settled")
        assert (await hub.crew.rows.load(ref.job_id)).attempt == 2
