"""What happens to an attempt when the server, the network or the executor itself goes away."""

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import ownership
from terracrew.attempt.encryption import AttemptCipher
from terracrew.attempt.record import AttemptRecord
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.outbox import Outbox
from terracrew.executor.delivery.recorder import Offsets, Piece, Recorder
from terracrew.executor.state.states import States
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events, version
from terracrew.protocol.events import MAX_INLINE_STATE_BYTES, Kind, Result, StateFact, StepStatus, Stream
from terracrew.protocol.messages import Begun, CancelAttempt, ExecutorWelcome, Refused, SupersededNotice
from terracrew.protocol.spec import JobType, Step
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, Gate, gone, joined, module, session
from terracrew.testing.fake_executor_hub import API, HUB, FakeExecutorHub
from tests.executor.engine_runs import at_the_gate, gated, gated_plan
from tests.machine.small_disk import fill

pytestmark = pytest.mark.engine

CHATTY = """
resource "terraform_data" "chatty" {
  provisioner "local-exec" { command = "seq 1 20000" }
}
"""


@pytest.mark.feature("L3.complete", "O1.continues")
async def test_a_chatty_apply_whose_connection_drops_five_times_loses_and_repeats_nothing(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hub.drop_after = [3, 2, 4, 1, 2]
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=CHATTY)))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert len(hub.hellos) == 6
    assert hub.refused_numbers == []
    assert joined(hub.log()) == joined(executor.printed)
    assert hub.log().count(b"(local-exec):") >= 20000


@pytest.mark.feature("J15.kept", "O1.continues")
async def test_a_server_that_is_away_when_the_state_is_written_gets_it_once_when_it_is_back(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=gated(gate))))
    await at_the_gate(hub)
    await hub.stop()
    before = len(hub.states)
    await gate.open()
    await executor.until_printed(b"Apply complete!")
    assert not hub.has_result
    await hub.start()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert len(hub.states) > before
    numbers = [number for number, _, _ in hub.states]
    assert numbers == sorted(set(numbers))
    assert [resource["name"] for resource in json.loads(hub.states[-1][2])["resources"]] == ["first", "held"]
    assert joined(hub.log()) == joined(executor.printed)
    assert isinstance(hub.facts[-1], Result), "the result comes after the state, and last"


async def test_an_executor_that_is_cut_off_does_not_apply_before_begin_is_answered(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hub.answer_begin = lambda _: None
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=CHATTY)))
    await hub.until(lambda: hub.begins)
    assert hub.begins[0][1] == hub.mark, "begin comes after everything before it"
    await hub.stop()
    assert b"Apply complete!" not in executor.printed
    hub.answer_begin = Begun
    await hub.start()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert len(hub.begins) >= 2, "it asked again; how often is a matter of how slow the outage was"


@pytest.mark.feature("O3.fenced")
async def test_an_executor_that_was_superseded_while_it_was_cut_off_never_applies(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hub.answer_begin = lambda _: None
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=CHATTY)))
    await hub.until(lambda: hub.begins)
    hub.welcome = lambda mark: ExecutorWelcome(mark, version.NEWEST_VERSION, is_superseded=True)
    await hub.drop()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "CANCELED"
    assert len(hub.begins) == 1
    assert b"Apply complete!" not in executor.printed
    assert hub.facts_of(StepStatus)[-2:] == [StepStatus("apply", "SKIPPED"), StepStatus("output", "SKIPPED")]


@pytest.mark.feature("O3.fenced")
async def test_an_attempt_superseded_in_mid_apply_finishes_the_run_delivers_and_starts_nothing_more(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=gated(gate))))
    await at_the_gate(hub)
    await hub.tell(SupersededNotice("attempt 2 is the current one"))
    await gate.open()
    assert await executor.exit_code() == 0, executor.said
    assert b"Apply complete!" in hub.log()
    assert len(json.loads(hub.states[-1][2])["resources"]) == 2
    assert StepStatus("apply", "SUCCEEDED", 0, is_cut_short=False) in hub.facts
    assert StepStatus("output", "SKIPPED") in hub.facts
    assert hub.result.status == "CANCELED"


@pytest.mark.feature("O3.fenced")
async def test_a_plan_that_is_superseded_stops(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    gate = Gate(executors.folder)
    held = gated_plan(gate)
    executor = await executors.run(executors.spec(JobType.PLAN, module(executors.folder / "source", main=held)))
    await gate.reached()
    await hub.tell(SupersededNotice("attempt 2 is the current one"))
    await executor.until_printed(b"Interrupt received")
    await gate.open()
    assert await executor.exit_code() == 0, executor.said
    # The engine prints that it was interrupted before it stops its walk, so it may still finish its plan.
    if hub.result.status == "SUCCEEDED":
        assert b" 2 to add, 0 to change" in hub.log()
    else:
        assert hub.result.status == "CANCELED"
        assert "attempt 2 is the current one" in hub.result.message


async def test_an_attempt_that_the_server_refuses_for_good_ends_and_keeps_its_directory(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hub.welcome = lambda _: Refused("not_found", "no such attempt", is_final=True)
    hub.is_acknowledging = False
    executor = await executors.run(executors.spec(JobType.PLAN, module(executors.folder / "source", main=CHATTY)))
    assert await executor.exit_code() == 3
    assert (executor.directory / "outbox").exists()
    assert not (executor.directory / "done").exists()
    assert int((executor.directory / "refused").read_text()) > 0


@pytest.mark.feature("J15.kept", "O4.salvaged")
async def test_salvage_of_an_executor_killed_in_an_apply_delivers_everything_the_engine_left(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    source = module(executors.folder / "source", main=gated(gate, after="seq 1 500; echo a-secret-of-the-runner"))
    executor = await executors.run(executors.spec(JobType.APPLY, source))
    await at_the_gate(hub)
    executor.kill()
    assert await executor.exit_code() == -signal.SIGKILL
    assert session(executor.process.pid), "the engine outlives its executor"
    await gate.open()
    await gone(executor.process.pid)
    assert b"(local-exec):\x1b[0m \x1b[0m500\n" in executor.printed

    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    assert (executor.directory / "done").read_text() == str(hub.mark), "the runner's report names the last event"
    assert joined(hub.log()) == joined(executor.printed.replace(b"a-secret-of-the-runner", b"***"))
    assert joined(hub.log(step="apply")).endswith(joined(executor.printed[-200:]))
    _, fact, content = hub.states[-1]
    assert (fact.origin, fact.is_inline) == ("errored", False)
    assert sorted(resource["name"] for resource in json.loads(content)["resources"]) == ["first", "held"]
    assert not hub.has_result, "nobody makes up a result"
    assert hub.refused_numbers == []

    mark = hub.mark
    (executor.directory / "done").unlink()
    again = await executors.salvage()
    assert await again.exit_code() == 0
    assert hub.mark == mark, "a second salvage has nothing to add"


@pytest.mark.feature("O4.salvaged")
async def test_salvage_of_an_executor_that_never_reached_the_server_delivers_its_whole_outbox(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    hub.drop_after = [0] * 100
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=gated(gate))))
    await executor.until_printed(b"known after apply")
    executor.kill()
    await executor.exit_code()
    for pid in session(executor.process.pid):
        os.kill(pid, signal.SIGKILL)
    await gone(executor.process.pid)
    hub.drop_after = []
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    assert joined(hub.log()) == joined(executor.printed)
    assert StepStatus("init", "SUCCEEDED", 0, is_cut_short=False) in hub.facts
    assert not hub.has_result


@pytest.mark.feature("O4.salvaged")
async def test_salvage_goes_on_above_the_servers_mark_where_a_crashed_machine_kept_less(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    executor = await executors.run(executors.spec(JobType.PLAN, module(executors.folder / "source", main=CHATTY)))
    assert await executor.exit_code() == 0
    mark = hub.mark
    (executor.directory / "done").unlink()
    outbox = executor.directory / "outbox"
    content, kept = outbox.read_bytes(), 0
    for record in events.unpack(content):
        kept += events.HEADER.size + len(record.payload)
        if record.step_name is Step.PLAN:
            break
    outbox.write_bytes(content[: kept + 10])
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    assert hub.mark == mark + 2
    assert (executor.directory / "done").read_text() == str(hub.mark)
    assert hub.records[-2].kind == Kind.LOG
    assert b"The machine crashed" in hub.records[-2].payload
    assert hub.records[-2].step_name is Step.PLAN, "the last step that the disk knows of"
    assert events.fact_of(hub.records[-1]) == events.OutputMissing()


@pytest.mark.feature("J15.lost", "O4.salvaged")
@pytest.mark.parametrize("is_restarted", [True, False])
async def test_a_salvage_says_that_output_may_be_missing_if_the_machine_was_restarted(
    hub: FakeExecutorHub, executors: ExecutorProcesses, is_restarted: bool
) -> None:
    """What was not synced is lost with a machine, and nothing on its disk shows it."""
    executor = await executors.run(executors.spec(JobType.PLAN, module(executors.folder / "source", main=CHATTY)))
    await hub.until(lambda: hub.mark > 0)
    executor.kill()
    await executor.exit_code()
    for pid in session(executor.process.pid):
        os.kill(pid, signal.SIGKILL)
    await gone(executor.process.pid)
    process = ownership.process_of(executor.directory)
    assert process is not None
    if is_restarted:
        process = msgspec.structs.replace(process, boot_id="an earlier boot")
        (executor.directory / "pid").write_text(ownership.signature(process))
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    assert (events.OutputMissing() in hub.facts) == is_restarted


@pytest.mark.feature("J15.kept", "O4.salvaged")
async def test_salvage_delivers_a_state_whose_event_was_lost_in_a_power_cut(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """Symptom: a synced state whose event had not been written was deleted when the attempt was salvaged."""
    executors.directory.mkdir()
    record = AttemptRecord("job_1", 1, hub.url, HUB, [API])
    (executors.directory / "attempt.json").write_bytes(msgspec.json.encode(record))
    outbox = Outbox(executors.directory / "outbox")
    outbox.append(events.pack(Kind.LOG, Stream.OUTPUT, Step.APPLY, 1.0, b"a line\n"))
    outbox.close()
    large_states = LargeStates(executors.directory / "states", 0)
    large_states.write(b"sealed")
    fact = StateFact("5" * 64, 6, serial=5, lineage="one", is_inline=False)
    large_states.place(hub.mark + 7, event=events.pack_state(fact, b"", Step.APPLY, 1.0))
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    assert [sealed for sealed, _ in hub.puts.values()] == [b"sealed"]
    assert [events.state_of(record)[0] for record in hub.records if record.kind == Kind.STATE] == [fact]


LOUD = 100_000
FREE = 4 << 20


def loud(gate: Gate) -> str:
    """Prints far more than there is room for, once the gate is open."""
    held = gate.provisioner(after=f"seq -f line-%.0f-of-it 1 {LOUD}")
    return f'resource "terraform_data" "loud" {{\n  {held}\n}}\noutput "word" {{ value = "done" }}\n'


def numbers(log: bytes) -> list[int]:
    """What the provisioner printed; the engine breaks a line in two if its end does not come within 100 ms."""
    printed = re.findall(rb"\(local-exec\): (.*)\n", re.sub(rb"\x1b\[[0-9;]*m", b"", log))
    return [int(number) for number in re.findall(rb"line-(\d+)-of-it", b"".join(printed))]


async def paused(executor: Executor) -> None:
    """Every process of the engine is stopped; the executor itself is not."""
    async with asyncio.timeout(120):
        while {_state(pid) for pid in session(executor.process.pid) if pid != executor.process.pid} != {"T"}:
            await asyncio.sleep(0.05)  # the kernel tells nobody but a parent


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


async def full(hub: FakeExecutorHub, executors: ExecutorProcesses, gate: Gate) -> Executor:
    """An apply whose disk has become full while it printed."""
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=loud(gate))))
    await at_the_gate(hub)
    fill(executors.folder / "ballast", but=FREE)
    await gate.open()
    await paused(executor)
    await hub.until(lambda: b"disk of this runner is full" in hub.log(Stream.SYSTEM))
    return executor


@pytest.mark.feature("L3.spool")
async def test_a_full_disk_pauses_the_engine_says_so_and_loses_nothing(
    hub: FakeExecutorHub, stage_on_small_disk: ExecutorProcesses
) -> None:
    stage, gate = stage_on_small_disk, Gate(stage_on_small_disk.folder)
    executor = await full(hub, stage, gate)
    seen = numbers(hub.log())
    assert 0 < len(seen) < LOUD
    assert not hub.has_result
    (stage.folder / "ballast").unlink()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert numbers(hub.log()) == list(range(1, LOUD + 1)), "complete and in order"
    assert len(json.loads(hub.states[-1][2])["resources"]) == 1
    assert hub.log(Stream.SYSTEM).count(b"disk of this runner is full") == 1
    assert b"space on the runner's disk again" in hub.log(Stream.SYSTEM)


@pytest.mark.feature("J9.modes")
async def test_a_job_whose_engine_is_paused_by_a_full_disk_can_be_canceled(
    hub: FakeExecutorHub, stage_on_small_disk: ExecutorProcesses
) -> None:
    stage, gate = stage_on_small_disk, Gate(stage_on_small_disk.folder)
    executor = await full(hub, stage, gate)
    await hub.tell(CancelAttempt("job_1", 1, "interrupt"))
    await hub.until(lambda: StepStatus("apply", "CANCELED", 1, is_cut_short=False) in hub.facts or hub.has_result)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "CANCELED"
    assert (stage.folder / "ballast").exists(), "nobody had to make room for it"


@pytest.mark.feature("J15.kept")
@pytest.mark.parametrize("size", [1_000_000, 5_000_000], ids=["in an event", "beside it"])
async def test_a_state_on_a_full_disk_has_room_or_waits_for_it_and_is_not_refused(small_disk: Path, size: int) -> None:
    """An error would make the engine write it beside itself, on the same full disk, and then nowhere."""
    outbox = Outbox(small_disk / "outbox")
    recorder = Recorder(outbox, Redactor([]), Offsets(small_disk / "offset", outbox))
    states = States(
        LargeStates(small_disk / "states", 0), recorder, AttemptCipher(bytes(32), "job_1", 1), engine="tofu"
    )
    states.is_writable = True
    recorder.output(Piece(b"a line\n", 7))
    fill(small_disk / "ballast")
    state = json.dumps({"serial": 1, "lineage": "l", "content": "x" * size}).encode()
    writing = asyncio.create_task(states.write(state))
    if size > MAX_INLINE_STATE_BYTES:
        await asyncio.wait({writing}, timeout=1.5)
        assert not writing.done()
        (small_disk / "ballast").unlink()
    assert await asyncio.wait_for(writing, 60) == 2
    assert states.current == state
