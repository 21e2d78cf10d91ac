"""The result is an attempt's last event: nothing stands behind it, and nothing waits for an answer that never comes."""

import asyncio
import json
import signal
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt.encryption import AttemptCipher
from terracrew.attempt.record import AttemptRecord
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.outbox import Outbox
from terracrew.executor.delivery.recorder import Offsets, Recorder
from terracrew.executor.state.states import States
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events
from terracrew.protocol.events import Kind, Result, Stream
from terracrew.protocol.spec import JobType, Step
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import API, HUB, FakeExecutorHub


def _ends_with_result(outbox: Path) -> bool:
    box = Outbox(outbox)
    try:
        *_, (_, last) = box.records()
    finally:
        box.close()
    return last.kind == Kind.FACT and isinstance(events.fact_of(last), Result)


@pytest.mark.feature("O4.salvaged")
async def test_a_salvage_adds_nothing_behind_a_result(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """It said that the machine had crashed, behind the result, and waited for ever for that line to be acknowledged."""
    executors.directory.mkdir()
    record = AttemptRecord("job_1", 1, hub.url, HUB, [API])
    (executors.directory / "attempt.json").write_bytes(msgspec.json.encode(record))
    box = Outbox(executors.directory / "outbox")
    box.append(events.pack(Kind.LOG, Stream.OUTPUT, Step.PLAN, 1.0, b"line\n"))
    box.append(events.pack_fact(Result("CANCELED", "stopped"), Step.APPLY, 2.0))
    box.close()
    assert await (await executors.salvage()).exit_code(within=30) == 0
    assert hub.mark == 2


async def test_a_signal_after_the_result_adds_nothing_behind_it(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A host that shut down while the server was away left an executor that never ended."""
    await hub.stop()
    executor = await executors.run(executors.spec(JobType.PLAN, b"this is no archive"))
    outbox = executors.directory / "outbox"
    async with asyncio.timeout(30):
        while not (outbox.exists() and b'"type":"result"' in outbox.read_bytes()):
            await asyncio.sleep(0.05)
    executor.kill(signal.SIGTERM)
    await hub.start()
    await executor.exit_code(within=30)
    assert _ends_with_result(outbox)


@pytest.mark.feature("J15.kept")
async def test_a_state_that_is_being_written_stands_before_what_follows_it(tmp_path: Path) -> None:
    """An engine that was killed right after it had handed its state over: the state came behind the result, and was refused."""
    box = Outbox(tmp_path / "outbox")
    recorder = Recorder(box, Redactor([]), Offsets(tmp_path / "offsets", box))
    states = States(LargeStates(tmp_path / "states", 0), recorder, AttemptCipher(bytes(32), "job_1", 1), engine="tofu")
    states.is_writable = True
    large = json.dumps({"serial": 1, "lineage": "a", "resources": [], "padding": "x" * (3 << 20)}).encode()
    writing = asyncio.create_task(states.write(large))
    await asyncio.sleep(0)  # it has the whole body, and the engine is killed now
    states.is_writable = False
    await states.settle()
    recorder.fact(Result("FAILED", "apply failed"))
    await writing
    assert [record.kind for _, record in box.records()] == [Kind.STATE, Kind.FACT]
