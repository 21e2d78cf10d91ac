"""With two servers on one PostgreSQL, a decision of one reaches the clients of the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from terracrew.api.jobs import NewJob
from terracrew.protocol import events, frames, messages
from terracrew.protocol.spec import JobType, Step
from terracrew.server.app import build, close
from terracrew.server.connections import heartbeats
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.hub.presence import Presence
from terracrew.server.hub.runners import takeover
from terracrew.server.jobs import service
from terracrew.server.jobs.create import JobRequest
from tests.builders.clock import ShiftedClock
from tests.builders.transactions import held_open, until_blocked
from tests.server.application import Application, attached_app, open_application, settings_for
from tests.server.hub.hub_clients import Hub, listening, ref_of
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.postgres
STARTED = frames.pack(1, 1, events.pack_fact(events.StepStatus(Step.PLAN, "RUNNING"), Step.PLAN, 1.0))


@pytest.fixture
async def hubs(postgres_url: str, tmp_path: Path, clock: ShiftedClock) -> AsyncIterator[tuple[Hub, Hub]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(open_application(postgres_url, tmp_path / "one", clock=clock))
        settings = settings_for(tmp_path / "other", postgres_url)
        server = await build(settings, clock)
        second = Application(server, stack.enter_context(attached_app(server)), first.admin)
        stack.push_async_callback(close, second.server)
        one, other = [
            await stack.enter_async_context(listening(await SimulatedRunner.make(each))) for each in (first, second)
        ]
        other.share_credentials(one)
        for hub in (one, other):
            messenger = asyncio.create_task(HubNotifier(hub.server.hub.runners).run())
            stack.callback(messenger.cancel)
        yield one, other


@pytest.mark.feature("J9.modes")
async def test_a_cancellation_on_one_server_reaches_an_executor_on_the_other(hubs: tuple[Hub, Hub]) -> None:
    one, other = hubs
    async with one.runner() as runner:
        granted = await runner.granted(await one.job())
        async with other.executor(granted) as executor:
            await service.cancel(one.server.db, one.crew.app.admin.principal, granted.spec.job_id, "kill")
            assert (await executor.get())["mode"] == "kill"


@pytest.mark.feature("R4.takeover")
async def test_an_instance_that_comes_back_to_another_server_has_left_the_first(hubs: tuple[Hub, Hub]) -> None:
    """Its old connection was chosen for every second job, and could claim none."""
    one, other = hubs
    async with one.runner() as old, other.runner() as new:
        assert (await old.get("refused"))["code"] == "superseded"
        await one.until(lambda: not one.server.registry.runners)
        await new.granted(await other.job())


@pytest.mark.feature("O6.blameless")
async def test_an_executor_that_comes_back_to_another_server_is_known_there_at_once(hubs: tuple[Hub, Hub]) -> None:
    one, other = hubs
    async with one.runner() as runner:
        granted = await runner.granted(await one.job())
        async with one.executor(granted) as executor:
            await executor.connection.send(STARTED)
            await executor.get("ack")
        async with other.executor(granted):
            (attempt,) = await one.crew.rows.attempts(granted.spec.job_id)
            assert attempt.heard_at is not None


@pytest.mark.feature("J9.modes")
async def test_a_runner_is_told_to_end_what_no_server_can_reach_and_nothing_else(hubs: tuple[Hub, Hub]) -> None:
    """It was told to kill an executor that had just been asked to stop in good order, by the other server."""
    one, other = hubs
    async with one.runner() as runner:
        granted = await runner.granted(await one.job())
        job_id = granted.spec.job_id
        async with other.executor(granted) as executor:
            await service.cancel(one.server.db, one.crew.app.admin.principal, job_id, "interrupt")
            assert (await executor.get())["mode"] == "interrupt"
            await runner.send(messages.HandBack("job_" + "0" * 32, 1, "an answer says that all before it was sent"))
            assert (await runner.get())["type"] == "settled", "and its runner heard nothing of it"
        assert await runner.get() == {"type": "cancel", "job_id": job_id, "attempt": 1, "mode": "interrupt"}


@pytest.mark.feature("J9.modes")
async def test_a_server_that_was_killed_with_an_executor_on_it_keeps_no_runner_from_being_told(
    hubs: tuple[Hub, Hub], clock: ShiftedClock
) -> None:
    one, _ = hubs
    async with one.runner() as runner:
        granted = await runner.granted(await one.job())
        await one.server.db.write(lambda tx: heartbeats.executor_came(tx, ref_of(granted), "srv_killed"))
        clock.advance(heartbeats.STALE_SECONDS + 1)
        await service.cancel(one.server.db, one.crew.app.admin.principal, granted.spec.job_id, "kill")
        assert (await runner.get())["mode"] == "kill"


@pytest.mark.feature("O6.blameless")
async def test_what_went_here_and_is_connected_there_is_not_gone(hubs: tuple[Hub, Hub]) -> None:
    """Its old server saw it go, did not look where it was, and took the job away from it after a slow round of heartbeats."""
    one, other = hubs
    async with other.runner() as runner:
        granted = await runner.granted(await one.job())
        ref, registry = ref_of(granted), one.server.registry
        async with one.executor(granted) as executor:
            await executor.connection.send(STARTED)
            await executor.get("ack")
        await one.until(lambda: registry.closed == [ref])
        await Presence(one.server.hub.runners).step()
        assert registry.closed == [], "its runner is connected to the other server"
    async with one.executor(granted):
        pass
    await one.until(lambda: registry.closed == [ref])
    async with other.executor(granted):
        await Presence(one.server.hub.runners).step()
        assert registry.closed == []


@pytest.mark.feature("R4.one")
async def test_a_stranger_at_one_server_is_refused_by_the_word_of_whoever_is_connected_to_the_other(
    hubs: tuple[Hub, Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = hubs
    async with one.runner() as first, other.connected(await other.token()) as stranger:
        async with first.living():
            assert (await stranger.ask(other.hello(instance_key="s" * 32)))["code"] == "conflict"
        assert one.session().epoch == 1
        monkeypatch.setattr(takeover, "ANSWER_TIMEOUT_SECONDS", 0.3)
        async with other.connected(await other.token()) as later:
            assert (await later.ask(other.hello(instance_key="s" * 32)))["type"] == "welcome"
            assert (await first.get("refused"))["code"] == "superseded"


async def test_one_idempotency_key_used_on_two_servers_at_once_makes_one_job(hubs: tuple[Hub, Hub]) -> None:
    """The slower of the two requests was answered 409 instead of with the job that the faster one had made."""
    one, _ = hubs
    module = await one.crew.rows.module()
    wanted = JobRequest(one.crew.app.admin.principal, module, NewJob(JobType.PLAN), "nightly")
    organization = wanted.principal.organization_id
    numbers = "SELECT id FROM organizations WHERE id = :id FOR UPDATE"
    async with held_open(one.server.db, lambda tx: tx.all(numbers, id=organization)):
        making = [asyncio.ensure_future(hub.server.create_job(wanted)) for hub in hubs]
        await until_blocked(one.server.db, 2)  # both have looked for the key, found nothing, and wait for a number
    made = [await each for each in making]
    assert made[0].job.id == made[1].job.id
    assert sorted(each.is_new for each in made) == [False, True]
