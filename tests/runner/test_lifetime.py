"""A runner that had nothing to do asks to leave and ends only if the server agrees; an old one ends after its last job."""

from collections.abc import Callable

import msgspec
import pytest

from terracrew.protocol.messages import (
    AttemptRef,
    Credits,
    Heartbeat,
    Leave,
    LeaveAnswer,
    Retire,
)
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Stop
from terracrew.runner.lifetime import Lifetime
from tests.builders.clock import ManualClock
from tests.runner.conftest import Runners

pytestmark = pytest.mark.feature("W3.scale")


class Asked:
    """A connection that counts the requests to leave."""

    def __init__(self) -> None:
        self.on_leave_answer: Callable[[bool, str], None] = lambda _granted, _reason: None
        self.on_retire: Callable[[str], None] = lambda _reason: None
        self.is_welcome = True
        self.is_on_trial = False
        self.requests = 0
        self.idle_seconds = 0.0

    def ask_to_leave(self, idle_seconds: float) -> None:
        self.requests += 1
        self.idle_seconds = idle_seconds


class Idling:
    """A runner whose clock and attempts a test moves."""

    def __init__(self, **settings: float) -> None:
        config = RunnerConfig("http://localhost", "rnr", "one", "id", "secret", "/w", "/t")
        config = msgspec.structs.replace(config, **settings)
        self.clock, self.connection, self.slots, self.stop = ManualClock(1000.0), Asked(), Slots(2), Stop(110.0)
        self.is_idle = True
        self.lifetime = Lifetime(config, self.stop, self.connection, self.slots, lambda: self.is_idle, self.clock)

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.lifetime.step()


async def test_it_asks_after_its_idle_time_and_again_only_after_another_one() -> None:
    runner = Idling(idle_seconds=60)
    runner.pass_seconds(60)
    assert runner.connection.requests == 0
    runner.pass_seconds(1)
    assert runner.connection.requests == 1
    runner.connection.on_leave_answer(False, "it is wanted")
    runner.pass_seconds(59)
    assert (runner.connection.requests, runner.stop.drain.is_set()) == (1, False)
    runner.pass_seconds(1)
    assert (runner.connection.requests, runner.connection.idle_seconds) == (2, 120.0)
    runner.connection.on_leave_answer(True, "")
    assert runner.stop.drain.is_set()
    assert runner.stop.departures.current is None


async def test_a_trial_a_job_a_claim_and_a_new_connection_begin_the_idle_time_anew() -> None:
    runner = Idling(idle_seconds=60)
    runner.connection.is_on_trial = True
    runner.pass_seconds(100)
    runner.connection.is_on_trial = False
    runner.pass_seconds(50)
    ref = AttemptRef("job_1", 1)
    runner.slots.adopted(ref)
    runner.slots.freed(ref)  # a job that was over before the next look counts, too
    runner.pass_seconds(60)
    assert runner.connection.requests == 0
    runner.is_idle = False
    runner.pass_seconds(300)
    runner.is_idle = True
    runner.pass_seconds(50)
    runner.connection.is_welcome = False
    runner.pass_seconds(300)
    runner.connection.is_welcome = True
    runner.pass_seconds(60)
    assert runner.connection.requests == 0
    runner.pass_seconds(1)
    assert runner.connection.requests == 1


async def test_at_the_end_of_its_lifetime_it_takes_no_more_jobs_and_a_signal_keeps_its_meaning() -> None:
    runner = Idling(max_lifetime_seconds=100)
    runner.is_idle = False
    runner.pass_seconds(99)
    assert not runner.stop.drain.is_set()
    runner.pass_seconds(1)
    assert runner.stop.drain.is_set()
    departure = runner.stop.departures.current
    assert departure is not None
    assert (departure.reason, departure.ends_at) == ("the end of its lifetime", None)
    runner.stop.request("SIGTERM")
    assert not runner.stop.is_hurried, "the first signal gives its attempts all of its time"
    departure = runner.stop.departures.current
    assert departure is not None
    assert departure.ends_at is not None


@pytest.mark.feature("V3.update")
async def test_a_runner_that_is_retired_ends_after_its_last_job_as_soon_as_the_server_agrees() -> None:
    runner = Idling(idle_seconds=3600)
    runner.is_idle = False
    runner.pass_seconds(10)
    runner.connection.on_retire("replaced by a newer deployment")
    runner.pass_seconds(100)
    assert (runner.connection.requests, runner.stop.drain.is_set()) == (0, False), "it has a job"
    runner.is_idle = True
    runner.pass_seconds(2)
    assert runner.connection.requests == 2
    runner.connection.on_leave_answer(False, "a job is on its way to it")
    assert not runner.stop.drain.is_set()
    runner.pass_seconds(1)
    runner.connection.on_leave_answer(True, "")
    assert runner.stop.drain.is_set()
    alone = Idling()  # it may not ask, so it ends by itself
    alone.connection.on_retire("replaced by a newer deployment")
    departure = alone.stop.departures.current
    assert departure is not None
    assert (alone.stop.drain.is_set(), departure.ends_at) == (True, None)


@pytest.mark.feature("V3.update")
async def test_a_retired_process_finishes_its_job_takes_no_other_and_exits_with_the_code_0(runners: Runners) -> None:
    runner, peer = await runners.connected(idle_seconds=600)
    executor = await runners.grant(peer)
    await peer.send(Retire("replaced by a newer deployment"))
    while not (said := await peer.receive(Heartbeat)).is_draining:
        pass
    assert said.drain_reason == "replaced by a newer deployment"
    assert peer.received(Credits)[-1].slots == 0
    await peer.receive(Heartbeat)
    assert peer.received(Leave) == []
    await executor.tell("finish")
    await peer.receive(Leave)
    await peer.send(LeaveAnswer(True))
    assert await runner.ended() == 0


async def test_a_runner_without_these_settings_stays() -> None:
    runner = Idling()
    runner.pass_seconds(1000)
    assert (runner.connection.requests, runner.stop.drain.is_set()) == (0, False)


async def test_a_process_ends_with_the_code_0_only_after_the_server_has_agreed(runners: Runners) -> None:
    runner, peer = await runners.connected(idle_seconds=0.3)
    await peer.receive(Leave)
    await peer.send(LeaveAnswer(False, "it is wanted"))
    executor = await runners.grant(peer, "job_2")
    before = len(peer.received(Leave))
    for _ in range(10):
        await peer.receive(Heartbeat)
    assert len(peer.received(Leave)) == before, "a runner with a job does not ask"
    await executor.tell("finish")
    await peer.receive(Leave)
    await peer.send(LeaveAnswer(True))
    assert await runner.ended() == 0
    assert "leaving: there was no job" in runner.output
