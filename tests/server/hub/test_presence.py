"""A runner is offline after a minute of silence, which the absence of the server itself does not count towards."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Tx
from terracrew.server.db.topics import InstanceKey
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.hub.presence import Presence
from terracrew.server.process import serve
from tests.builders.clock import ManualClock, ShiftedClock
from tests.builders.job_rows import JobRows, change_instances, change_runners
from tests.server.connections.registered_sessions import LONG, REF, Watched, executor, runner
from tests.server.hub.hub_clients import TIMEOUT_SECONDS, Hub, listening, refusal

BEAT = messages.Heartbeat("0.1.0", is_draining=False, attempts=[])


async def is_connected(hub: Hub) -> bool:
    return bool(await hub.crew.app.scalar("SELECT is_connected FROM instances WHERE runner_id = :id", id=hub.runner_id))


async def status(hub: Hub) -> str:
    return str((await hub.crew.app.admin.get(f"/api/v1/runners/{hub.runner_id}")).json()["status"])


async def eventually(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not await is_so():
            await asyncio.sleep(0.01)


# ---- a minute of silence


@pytest.mark.feature("C3.rows", "O2.status")
async def test_silence_makes_a_runner_offline_and_whoever_looks_is_told(
    hub: Hub, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row changed, so no page did: it showed ONLINE until somebody loaded it again."""
    async with hub.runner() as client:
        monkeypatch.setattr(hub.server.registry, "now", lambda: time.monotonic() + 59)
        hub.server.registry.note_check()
        monkeypatch.setattr(hub.server.registry, "watching_since", 0.0)
        await Presence(hub.server.hub.runners).step()
        assert await status(hub) == "ONLINE"
        clock.advance(61)
        monkeypatch.setattr(hub.server.registry, "now", lambda: time.monotonic() + 61)
        instance = InstanceKey(hub.runner_id, hub.session().instance_id).encode()
        with hub.server.db.listen("instances") as woken:
            await Presence(hub.server.hub.runners).step()
            assert ("instances", instance) in await woken.get(TIMEOUT_SECONDS)
        assert await status(hub) == "OFFLINE"
        await HubNotifier(hub.server.hub.runners).step({("instances", instance)})
        assert await refusal(client) == ("unavailable", False)
    async with hub.runner():
        assert await status(hub) == "ONLINE"


@pytest.mark.feature("O3.lost")
async def test_a_runner_that_counts_as_offline_was_not_seen_to_go(
    hub: Hub, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection was closed after a minute of silence, and its attempt got another minute from then on: 115 s in all."""
    registry = hub.server.registry
    async with hub.runner() as client:
        (session,) = registry.runners.values()
        session.active_jobs, session.reported_attempts = {REF.job_id}, {REF}
        monkeypatch.setattr(registry, "now", lambda: time.monotonic() + 61)
        registry.note_check()
        monkeypatch.setattr(registry, "watching_since", 0.0)
        clock.advance(61)
        await Presence(hub.server.hub.runners).step()
        await HubNotifier(hub.server.hub.runners).step({("runners", hub.runner_id)})
        assert await refusal(client) == ("unavailable", False)
        await eventually(lambda: _is_forgotten(hub))
        assert registry.silence(REF, session.instance_id, LONG) == (LONG, False)


@pytest.mark.feature("C3.rows", "O2.status")
async def test_a_runner_that_is_heard_here_is_not_offline_though_the_database_is_late(
    hub: Hub, clock: ShiftedClock
) -> None:
    async with hub.runner():
        hub.server.registry.watching_since = 0.0
        clock.advance(61)
        await Presence(hub.server.hub.runners).step()
        assert await is_connected(hub)


@pytest.mark.feature("O6.blameless")
async def test_after_a_gap_nobody_is_offline_before_a_full_period(
    hub: Hub, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = ManualClock(time.monotonic())
    monkeypatch.setattr(hub.server.registry, "now", servers)
    async with hub.runner():
        clock.advance(61)
        servers.advance(300)  # the database was away, or this process was stopped
        presence = Presence(hub.server.hub.runners)
        for _ in range(59):
            await presence.step()
            servers.advance(1)
        assert await is_connected(hub)
        for _ in range(2):
            await presence.step()
            servers.advance(1)
        assert not await is_connected(hub)


async def test_the_connections_of_a_killed_server_do_not_stay_for_ever(hub: Hub, clock: ShiftedClock) -> None:
    async with hub.runner():
        pass
    await eventually(lambda: _not(is_connected(hub)))
    await change_instances(hub.server.db, is_connected=True, server_id="srv_killed")
    hub.server.registry.watching_since = 0.0
    await Presence(hub.server.hub.runners).step()
    assert await is_connected(hub), "it may be on its way to another server"
    clock.advance(61)
    await Presence(hub.server.hub.runners).step()
    assert not await is_connected(hub)


async def _is_forgotten(hub: Hub) -> bool:
    return not hub.server.registry.runners


async def _not(found: Any) -> bool:
    return not await found


@pytest.mark.feature("C3.rows", "O2.status", "O6.blameless")
async def test_a_server_that_stops_does_not_make_its_runners_offline(hub: Hub) -> None:
    """The fleet was OFFLINE until the last of it had come back, and its jobs went to shared runners meanwhile."""
    async with hub.runner():
        hub.server.closing.set()
        await hub.until(lambda: not hub.server.registry.runners)
        assert await is_connected(hub)


@pytest.mark.feature("C3.rows", "O2.status")
async def test_a_runner_that_goes_is_offline_at_once(hub: Hub) -> None:
    async with hub.runner():
        assert await is_connected(hub)
    await eventually(lambda: _not(is_connected(hub)))


@pytest.mark.feature("C3.heartbeat", "O2.draining")
async def test_a_runner_drains_by_its_own_word_and_by_that_of_its_record(hub: Hub) -> None:
    async with hub.runner() as client:
        await client.send(messages.Heartbeat("0.1.0", is_draining=True, attempts=[]))
        await eventually(lambda: _is(hub, "DRAINING"))
        await client.send(BEAT)
        await eventually(lambda: _is(hub, "ONLINE"))
        await change_runners(hub.server.db, is_draining=True)
        assert await status(hub) == "DRAINING"
    await eventually(lambda: _is(hub, "OFFLINE"))


async def _is(hub: Hub, wanted: str) -> bool:
    return await status(hub) == wanted


# ---- what is written of heartbeats


@pytest.mark.feature("C3.rows", "O2.status")
async def test_a_heartbeat_is_written_with_its_own_time_and_not_with_that_of_the_batch(
    rows: JobRows, clock: ShiftedClock
) -> None:
    """A runner that fell silent just after a heartbeat was offline up to five seconds late."""
    instance, servers = await rows.runner(), ManualClock(1_000.0)
    heartbeats = Heartbeats(rows.db, Registry(servers))
    clock.advance(60)
    heartbeats.note(instance.id, 1)
    servers.advance(4)
    await heartbeats.step()
    row = await rows.db.read(lambda tx: _age(tx, instance.id))
    assert 4 <= row < 5


async def _age(tx: Tx, instance_id: str) -> float:
    row = await tx.one("SELECT heard_at FROM instances WHERE id = :id", id=instance_id)
    assert row is not None
    return tx.now - row["heard_at"]


@pytest.mark.feature("O6.blameless")
async def test_heartbeats_that_could_not_be_written_are_a_gap_and_are_written_later(hub: Hub) -> None:
    registry = hub.server.registry
    registry.watching_since = 0.0
    hub.server.heartbeats.note("ins_1", 1)
    await hub.server.db.close()
    for _ in range(2):
        with pytest.raises(Exception, match="database"):
            await hub.server.heartbeats.step()
    assert registry.watched_for < 5


# ---- attempts whose connections closed, or did not


@pytest.mark.feature("O3.lost", "O6.blameless")
def test_who_was_seen_to_go_before_a_gap_has_a_full_period_after_it() -> None:
    """Executors that lost their connection when the database went away were lost ten seconds after its return."""
    watched = Watched()
    connected = executor(REF)
    watched.registry.add_executor(connected)
    watched.registry.remove_executor(connected)
    watched.clock.now += 30
    watched.wait(11)
    assert watched.silence() == (10.0, False)


@pytest.mark.feature("O3.lost", "O6.blameless")
def test_what_closed_during_a_gap_was_not_seen_to_go() -> None:
    watched = Watched()
    connected = executor(REF)
    watched.registry.add_executor(connected)
    watched.clock.now += 30
    watched.registry.note_check()
    watched.registry.remove_executor(connected)  # closed while this process was stopped, and read only now
    watched.wait(11)
    assert watched.silence() == (11.0, False)


@pytest.mark.feature("O3.lost")
def test_an_executor_that_answers_no_ping_is_silent_and_not_gone() -> None:
    watched = Watched()
    connected = executor(REF)
    watched.registry.add_executor(connected)
    watched.wait(30)
    connected.socket.is_silent = True  # pyright: ignore[reportAttributeAccessIssue]
    watched.registry.remove_executor(connected)
    watched.registry.remove(watched.session)
    watched.wait(12)
    assert watched.registry.silence(REF, "ins_1", LONG)[1] is False
    assert list(watched.registry.fell_silent) == [REF]


@pytest.mark.feature("O3.lost")
async def test_a_minute_of_silence_of_an_executor_counts_from_what_it_last_said(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection counted as life until the pings had failed, and the minute began after that."""
    monkeypatch.setattr(serve, "PING_SECONDS", 0.5)
    async with listening(hub.crew) as quick, quick.runner() as runner_:
        quick.server.closing.clear()
        granted = await runner_.granted(await quick.job())
        ref = AttemptRef(granted.spec.job_id, 1)
        async with quick.executor(granted) as client:
            session = quick.server.registry.executors[ref]
            first = session.last_contact_at
            await quick.until(lambda: session.last_contact_at > first)  # a ping was answered
            client.connection.transport.pause_reading()
            await quick.server.heartbeats.step()
            before = await _heard_at(quick, ref)
            await quick.until(lambda: ref not in quick.server.registry.executors)
            assert quick.server.registry.fell_silent
            await quick.server.heartbeats.step()
            assert await _heard_at(quick, ref) <= before
            assert not quick.server.registry.closed
            client.connection.transport.resume_reading()


async def _heard_at(hub: Hub, ref: AttemptRef) -> float:
    return float(await hub.crew.app.scalar("SELECT heard_at FROM attempts WHERE job_id = :id", id=ref.job_id))


def test_a_question_is_asked_once_and_a_cancellation_told_once() -> None:
    session = runner()
    session.reported_attempts = {REF}
    session.cancel(REF, "interrupt")
    session.cancel(REF, "interrupt")
    session.cancel(REF, "kill")
    assert [message.mode for message in session.socket.posted] == ["interrupt", "kill"]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
