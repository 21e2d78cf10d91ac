"""What a runner does when an executor has died: it waits for the engine, delivers what is left, and reports."""

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from terracrew.protocol.messages import Credits, Gone, Heartbeat
from terracrew.system import procfs
from tests.runner.conftest import TIMEOUT_SECONDS, Runners, refs, until_reported


@pytest.mark.feature("C3.journal", "O4.salvaged")
@pytest.mark.parametrize("is_delivered", [True, False])
async def test_a_killed_executor_is_salvaged_and_reported_gone_with_what_was_delivered(
    runners: Runners, is_delivered: bool
) -> None:
    """Symptom: a delivery that the server refused was reported like a complete one, and the job's apply was repeated
    up to five times from a state that knew nothing of what had been made."""
    _, peer = await runners.connected()
    executor = await runners.grant(peer)
    await executor.kill()
    salvage = await runners.executors.next()
    assert salvage.facts["is_salvage"]
    assert salvage.facts["cwd"] == executor.facts["cwd"]
    assert not peer.received(Gone)
    await salvage.tell("finish" if is_delivered else "refused")
    gone = await peer.receive(Gone)
    assert gone == Gone(
        "job_1",
        1,
        saw_process=True,
        reason="the executor was ended by signal 9",
        last=7 if is_delivered else 9,
        is_delivered=is_delivered,
    )
    assert (runners.attempts / "job_1.1").exists()
    await runners.settle(peer)
    # What the server would not take may be the only copy of a state: it is kept for a person.
    kept = runners.attempts.parent / "undelivered" / "job_1.1" / "attempt.json"
    assert kept.exists() == (not is_delivered)


@pytest.mark.feature("O4.salvaged")
async def test_a_number_that_the_salvage_did_not_leave_is_not_made_up(runners: Runners) -> None:
    _, peer = await runners.connected()
    await (await runners.grant(peer)).kill()
    await (await runners.executors.next()).tell("exit 3")
    gone = await peer.receive(Gone)
    assert (gone.last, gone.is_delivered) == (None, False)


@pytest.mark.feature("O4.salvaged")
async def test_a_salvage_that_cannot_be_started_is_tried_again_without_a_traceback(runners: Runners) -> None:
    """Symptom: while the helper process did not answer, `NotStarted` escaped as a traceback ("could not be followed")."""
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    os.kill(executor.facts["helper"], signal.SIGKILL)
    await executor.kill()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while "could not be started" not in runner.output:
            for helper in procfs.descendants(runner.pid):
                procfs.send(helper, signal.SIGKILL)  # while it imports: it has not answered yet
            await asyncio.sleep(0.001)
    salvage = await runners.executors.next()
    await salvage.tell("finish")
    assert (await peer.receive(Gone)).is_delivered
    assert "Traceback" not in runner.output


@pytest.mark.feature("O4.salvaged")
async def test_a_salvage_that_fails_is_tried_again(runners: Runners) -> None:
    _, peer = await runners.connected()
    await (await runners.grant(peer)).kill()
    await (await runners.executors.next()).tell("exit 1")
    await (await runners.executors.next()).tell("exit 0")
    assert (await peer.receive(Gone)).attempt == 1


@pytest.mark.feature("O4.salvaged")
async def test_an_executor_that_died_while_no_runner_was_there_is_salvaged_by_the_next(
    runners: Runners,
) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    await runner.kill()
    await executor.kill()
    runner, peer = await runners.connected()
    salvage = await runners.executors.next()
    # And again: the runner dies while the salvage runs, and only one salvage at a time touches the directory.
    await runner.kill()
    _, peer = await runners.connected()
    await peer.receive(Heartbeat)
    assert runners.executors.is_empty
    await salvage.tell("exit 0")
    await (await runners.executors.next()).tell("exit 0")
    assert (await peer.receive(Gone)).saw_process
    await runners.settle(peer)


@pytest.mark.feature("O4.adopted")
async def test_an_engine_that_outlives_its_executor_is_let_finish_before_the_salvage(
    runners: Runners, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    _, peer = await runners.connected(capacity=1)
    executor = await runners.grant(peer)
    engine = (await executor.tell(f"engine {fifo}"))["engine"]
    await executor.kill()
    await until_reported(peer, ("job_1", 1))
    for _ in range(5):
        assert (await peer.receive(Heartbeat)).attempts == refs(("job_1", 1))
    assert procfs.stat(engine)
    assert runners.executors.is_empty
    assert [each.slots for each in peer.received(Credits)] == [1]  # the slot is not free
    fifo.write_text("")
    salvage = await runners.executors.next()
    assert salvage.facts["is_salvage"]
    await salvage.tell("exit 0")
    assert (await peer.receive(Gone)).saw_process


@pytest.mark.feature("O3.requeued", "O4.adopted")
@pytest.mark.parametrize("is_fenced", [False, True])
async def test_an_engine_that_outlives_runner_and_executor_is_waited_for_by_the_next_runner(
    runners: Runners, tmp_path: Path, is_fenced: bool
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    engine = (await executor.tell(f"engine {fifo}"))["engine"]
    await runner.kill()
    await executor.kill()
    if is_fenced:  # its job has gone on without it, and is in doubt until this attempt is known to be gone
        runners.hub.welcome = msgspec.structs.replace(runners.hub.welcome, unknown=refs(("job_1", 1)))
    _, peer = await runners.connected()
    assert peer.hello.attempts == refs(("job_1", 1))
    for _ in range(5):
        assert (await peer.receive(Heartbeat)).attempts == refs(("job_1", 1))
    assert procfs.stat(engine)
    assert runners.executors.is_empty
    assert not peer.received(Gone)
    fifo.write_text("")
    salvage = await runners.executors.next()
    assert salvage.facts["is_salvage"]
    assert not peer.received(Gone), "not before what it left is delivered"
    await salvage.tell("exit 0")
    assert (await peer.receive(Gone)).saw_process
    await runners.settle(peer)


@pytest.mark.feature("C3.journal", "O3.lost", "O4.salvaged")
async def test_gone_is_said_again_by_the_next_runner_until_the_server_has_heard_it(runners: Runners) -> None:
    runner, peer = await runners.connected()
    await (await runners.grant(peer)).kill()
    salvage = await runners.executors.next()
    assert (await salvage.tell("finish")) == {}
    await peer.receive(Gone)
    await runner.kill()
    runners.hub.welcome = msgspec.structs.replace(runners.hub.welcome, unknown=refs(("job_1", 1)))
    _, peer = await runners.connected()
    assert (await peer.receive(Gone)) == Gone(
        "job_1",
        1,
        saw_process=True,
        reason="the executor ended while no runner watched it",
        last=7,
        is_delivered=True,
    )
    assert runners.executors.is_empty, "what is delivered is not delivered again"
    await runners.settle(peer)
