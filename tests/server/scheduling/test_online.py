"""A server knows which runners are online elsewhere, and reads only those that have changed."""

from typing import Any

import pytest

from terracrew.protocol.messages import Heartbeat
from terracrew.server.connections import store
from terracrew.server.connections.registry import Registry
from terracrew.server.runners.eligibility import GRACE_SECONDS
from terracrew.server.scheduling import reads
from terracrew.server.scheduling.assignment_view import AssignedRunners
from terracrew.server.scheduling.online import WHOLE_READ_SECONDS, OnlineRunners
from tests.builders.clock import ManualClock, ShiftedClock
from tests.builders.job_rows import Instance, JobRows
from tests.server.scheduling.recorded_claims import ClaimRecorder

REPORTED = Heartbeat("1", is_draining=False, attempts=[])


class Seen:
    """What one server believes of some runners, and how often it read all of them."""

    def __init__(self, rows: JobRows, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows, self.clock, self.whole_reads = rows, ManualClock(1_000.0), 0
        self.online = OnlineRunners(rows.db, Registry(), self.clock)
        real = reads.connected_elsewhere

        async def counted(*arguments: Any) -> Any:
            self.whole_reads += 1
            return await real(*arguments)

        monkeypatch.setattr(reads, "connected_elsewhere", counted)

    def is_online(self, instance: Instance) -> bool:
        return self.online.has_one_of(AssignedRunners([instance.runner_id]), None)

    async def disconnect(self, instance: Instance) -> None:
        await self.rows.db.write(lambda tx: store.disconnect(tx, instance.runner_id, instance.id, 1))


@pytest.fixture
def seen(rows: JobRows, monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(rows, monkeypatch)


async def test_a_runner_that_comes_or_goes_elsewhere_is_read_alone(seen: Seen, clock: ShiftedClock) -> None:
    first = await seen.rows.runner()
    with seen.online.watching():
        await seen.online.read()
        assert (seen.is_online(first), seen.whole_reads) == (True, 1)
        second = await seen.rows.runner()
        await seen.rows.db.write(lambda tx: store.set_reported(tx, second.runner_id, second.id, 1, REPORTED))
        await seen.online.read()
        assert seen.is_online(second)
        await seen.disconnect(first)
        await seen.online.read()
        assert seen.is_online(first)  # for a moment, because it may come back
        clock.advance(GRACE_SECONDS + 1)
        await seen.online.read()
        assert not seen.is_online(first)
        assert seen.is_online(second)
    assert seen.whole_reads == 1


async def test_a_runner_that_drains_or_is_removed_is_not_online(seen: Seen) -> None:
    first, second = await seen.rows.runner(), await seen.rows.runner()
    with seen.online.watching():
        await seen.online.read()
        drained = Heartbeat("1", is_draining=True, attempts=[])
        await seen.rows.db.write(lambda tx: store.set_reported(tx, first.runner_id, first.id, 1, drained))
        await seen.rows.run("DELETE FROM instances WHERE id = :id", id=second.id)
        seen.rows.db.wake_here("runners", second.runner_id)
        await seen.online.read()
    assert (seen.is_online(first), seen.is_online(second), seen.whole_reads) == (False, False, 1)


async def test_a_lost_wake_up_costs_a_minute_at_most(seen: Seen) -> None:
    with seen.online.watching():
        await seen.online.read()
        quiet = await seen.rows.runner()  # which no wake-up announces
        await seen.online.read()
        assert not seen.is_online(quiet)
        seen.clock.advance(WHOLE_READ_SECONDS)
        await seen.online.read()
        assert seen.is_online(quiet)
        quiet = await seen.rows.runner()
        seen.rows.db.wake_here("instances", "")  # a server that missed messages does this
        await seen.online.read()
        assert seen.is_online(quiet)


async def test_everything_is_read_again_after_nobody_listened(seen: Seen) -> None:
    with seen.online.watching():
        await seen.online.read()
    missed = await seen.rows.runner()
    with seen.online.watching():
        await seen.online.read()
    assert seen.is_online(missed)


async def test_a_change_of_a_runner_does_not_keep_an_instance_online_that_has_left(
    seen: Seen, clock: ShiftedClock
) -> None:
    gone = await seen.rows.runner()
    with seen.online.watching():
        await seen.disconnect(gone)
        await seen.online.read()
        names = await seen.rows.db.read(lambda tx: reads.online_of_runner(tx, gone.runner_id))
        seen.online.change(gone.runner_id, *names)
        assert seen.is_online(gone)  # for a moment
        clock.advance(GRACE_SECONDS + 1)
        await seen.online.read()
        assert not seen.is_online(gone)


async def test_an_instance_whose_end_is_not_written_yet_stays_online(rows: JobRows, clock: ShiftedClock) -> None:
    recorder = ClaimRecorder(rows)
    instance, online = await rows.runner(), OnlineRunners(rows.db, recorder.registry)
    session, _ = recorder.connect(instance)
    tier = AssignedRunners([instance.runner_id])
    with online.watching():
        await online.read()
        recorder.registry.remove(session)
        online.left(session)
        await online.read()
        assert online.has_one_of(tier, None)
        await rows.db.write(lambda tx: store.disconnect(tx, instance.runner_id, instance.id, 1))
        await online.read()
        assert online.has_one_of(tier, None)
        clock.advance(GRACE_SECONDS + 1)
        await online.read()
        assert not online.has_one_of(tier, None)
