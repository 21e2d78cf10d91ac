"""The outbox: numbers, batches, and what a crash leaves of it."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.outbox import Outbox
from terracrew.executor.delivery.recorder import Offsets, Piece, Recorder
from terracrew.executor.output import engine_output
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events
from terracrew.protocol.events import MAX_BATCH_BYTES, Kind, Result, StateFact, Stream
from terracrew.protocol.spec import Step
from tests.machine.small_disk import fill
from tests.thoroughness import examples


def line(text: bytes) -> bytes:
    return events.pack(Kind.LOG, Stream.OUTPUT, Step.PLAN, 1.0, text)


def texts(outbox: Outbox) -> list[bytes]:
    return [record.payload for _, record in outbox.records()]


@pytest.mark.feature("L3.spool")
def test_batches_are_slices_of_the_file_in_order_and_bounded(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    sizes = [10, MAX_BATCH_BYTES - 100, 50, 2 * MAX_BATCH_BYTES, 1, 2, 3]
    for size in sizes:
        outbox.append(line(b"x" * size))
    seen, sent = [], 0
    while sent < outbox.last:
        batch = outbox.batch(sent, up_to=outbox.last, count=3)
        records = list(events.unpack(batch.body))
        assert (batch.first, len(records)) == (sent + 1, batch.size)
        assert batch.size <= 3
        assert len(batch.body) <= MAX_BATCH_BYTES or batch.size == 1
        seen += [len(record.payload) for record in records]
        sent = batch.last
    assert seen == sizes


@pytest.mark.feature("O4.salvaged")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8), st.integers(0, 600))
def test_a_torn_tail_is_cut_off_and_numbering_goes_on(tmp_path: Path, payloads: list[bytes], torn_at: int) -> None:
    path = tmp_path / "outbox"
    path.unlink(missing_ok=True)
    outbox = Outbox(path)
    ends = [0]
    for payload in payloads:
        outbox.append(line(payload))
        ends.append(path.stat().st_size)
    outbox.close()
    size = min(torn_at, path.stat().st_size)
    os.truncate(path, size)
    whole = sum(end <= size for end in ends) - 1
    again = Outbox(path)
    assert again.last == whole
    assert path.stat().st_size == ends[whole]
    again.append(line(b"after"))
    assert texts(again) == [*payloads[:whole], b"after"]
    again.close()


def test_an_acknowledged_outbox_can_be_rewound_to_what_a_restored_server_has(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    for at in range(10):
        outbox.append(line(b"%d" % at))
    outbox.acknowledge(10)
    outbox.append(line(b"10"))
    outbox.rewind(3)
    batch = outbox.batch(3, up_to=outbox.last, count=100)
    assert [record.payload for record in events.unpack(batch.body)] == [b"%d" % at for at in range(3, 11)]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox(tmp_path / "outbox")
    outbox.append(line(b"one"))
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return real(descriptor, bytes(data)[: len(data) // 2])

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="no room"):
        outbox.append(line(b"two"))
    monkeypatch.setattr(os, "write", real)
    assert outbox.append(line(b"three")) == 2
    assert texts(outbox) == [b"one", b"three"]
    assert Outbox(tmp_path / "outbox").last == 2


def test_facts_and_states_are_urgent_and_log_lines_are_not(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    outbox.append(line(b"one"))
    assert outbox.urgent == 0
    outbox.append(events.pack_fact(Result("SUCCEEDED"), Step.PLAN, 1.0))
    outbox.append(line(b"two"))
    assert outbox.urgent == 2
    assert Outbox(tmp_path / "outbox").urgent == 2


@pytest.mark.feature("L3.spool", "O4.salvaged")
@pytest.mark.parametrize("is_written", [True, False])
def test_a_crash_between_offset_and_event_neither_loses_nor_repeats_a_line(tmp_path: Path, is_written: bool) -> None:
    outbox = Outbox(tmp_path / "outbox")
    recorder = Recorder(outbox, Redactor([]), Offsets(tmp_path / "offset", outbox))
    recorder.output(Piece(b"one\n", 4))
    recorder.say("in between")
    recorder.output(Piece(b"two\n", 4))
    recorder.offsets.advance(outbox.last + 1, 6)
    if is_written:
        outbox.append(line(b"three\n"))
    # The executor is dead. Whatever is appended next must not make the unused slot come true.
    again = Outbox(tmp_path / "outbox")
    assert Offsets(tmp_path / "offset", again).position == (14 if is_written else 8)
    again.append(line(b"something else"))
    assert Offsets(tmp_path / "offset", Outbox(tmp_path / "outbox")).position == (14 if is_written else 8)


@pytest.mark.feature("O4.salvaged")
@pytest.mark.parametrize("kept", [0, 1, 3], ids=["no event", "an earlier event", "older events"])
def test_output_is_not_read_again_where_the_machine_kept_older_offsets_than_events(tmp_path: Path, kept: int) -> None:
    """Symptom: after a power cut lines were repeated, because the offsets were older or newer than the outbox."""
    outbox = Outbox(tmp_path / "outbox")
    recorder = Recorder(outbox, Redactor([]), Offsets(tmp_path / "offset", outbox))
    for number in range(4):
        if number == kept:
            older = (tmp_path / "offset").read_bytes()
        recorder.output(Piece(b"line\n", 5))
    recorder.say("not of the engine")
    assert Offsets(tmp_path / "offset", Outbox(tmp_path / "outbox")).is_known
    (tmp_path / "offset").write_bytes(older)
    assert not Offsets(tmp_path / "offset", Outbox(tmp_path / "outbox")).is_known


@pytest.mark.feature("O4.salvaged")
def test_output_is_not_read_again_where_the_machine_kept_newer_offsets_than_events(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    recorder = Recorder(outbox, Redactor([]), Offsets(tmp_path / "offset", outbox))
    sizes: list[int] = []
    for _ in range(5):
        recorder.output(Piece(b"line\n", 5))
        sizes.append((tmp_path / "outbox").stat().st_size)
    os.truncate(tmp_path / "outbox", sizes[1])
    assert not Offsets(tmp_path / "offset", Outbox(tmp_path / "outbox")).is_known
    os.truncate(tmp_path / "outbox", 0)
    assert Offsets(tmp_path / "offset", Outbox(tmp_path / "outbox")).is_known, "all of the output is still to be read"


@pytest.mark.feature("O4.salvaged")
def test_an_outbox_that_lost_events_says_so_also_when_it_is_opened_again(tmp_path: Path) -> None:
    """Symptom: a second salvage took the numbers that the first had used up for events, and read the output once more."""
    outbox = Outbox(tmp_path / "outbox")
    outbox.append(line(b"one"))
    assert not outbox.has_lost_events
    outbox.pad(5)
    assert outbox.has_lost_events
    assert Outbox(tmp_path / "outbox").has_lost_events


@pytest.mark.feature("O4.salvaged")
@pytest.mark.parametrize("record", [line(b"x" * 40), events.pack_fact(Result("SUCCEEDED"), Step.PLAN, 1.0)])
def test_zeros_in_the_middle_of_what_was_not_synced_are_cut_off(tmp_path: Path, record: bytes) -> None:
    """Symptom: a fact with zeros in it is refused by the server each time it is sent, and everything behind it waits."""
    outbox = Outbox(tmp_path / "outbox")
    outbox.append(line(b"one"))
    outbox.append(record)
    outbox.append(line(b"three"))
    content = (tmp_path / "outbox").read_bytes()
    start = content.index(record)
    damaged = 8 if record[4] == Kind.LOG else len(record) - 20  # in the header; or in the fact, behind a whole header
    zeros = bytes(len(record) - damaged)
    (tmp_path / "outbox").write_bytes(content[: start + damaged] + zeros + content[start + len(record) :])
    assert Outbox(tmp_path / "outbox").last == (1 if record[4] != Kind.LOG else 3), "text may hold anything"


STATE = events.pack_state(StateFact("0" * 64, 6, 1, "one", is_inline=False, origin="engine"), b"", Step.APPLY, 1.0)


@pytest.mark.feature("O4.salvaged")
@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_state_put_aside_whose_event_was_lost_is_kept_and_can_be_announced(tmp_path: Path, is_renamed: bool) -> None:
    """Symptom: a synced state whose event had not been written was deleted when the attempt was salvaged."""
    large_states = LargeStates(tmp_path / "states", 0)
    large_states.write(b"first")
    large_states.place(3, event=STATE)
    large_states.write(b"second")
    large_states.place(5, event=STATE)
    if not is_renamed:
        (tmp_path / "states" / "5").rename(tmp_path / "states" / "new")
    again = LargeStates(tmp_path / "states", 4)
    state_file = again.first_after(0)
    assert state_file
    assert (state_file.number, state_file.path.read_bytes(), state_file.is_plain) == (3, b"first", False)
    assert again.first_after(3) is None
    [found] = again.unannounced
    assert found.event == STATE
    again.announce(found, 9)
    state_file = LargeStates(tmp_path / "states", 9).first_after(3)
    assert state_file
    assert (state_file.number, state_file.path.read_bytes()) == (9, b"second")
    assert LargeStates(tmp_path / "states", 8).unannounced, "a crash before its event was recorded changes nothing"


def test_a_state_that_was_cut_off_is_neither_sent_nor_deleted(tmp_path: Path) -> None:
    large_states = LargeStates(tmp_path / "states", 0)
    large_states.write(b"sealed")
    again = LargeStates(tmp_path / "states", 4)
    assert again.first_after(0) is None
    assert not again.unannounced
    assert [path.name for path in again.unusable] == ["new"]
    assert (tmp_path / "states" / "new").exists()


@pytest.mark.feature("L3.spool")
async def test_a_full_disk_stops_the_reading_drops_nothing_and_leaves_room_for_a_result(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_output, "RETRY_SECONDS", 0.01)
    outbox = Outbox(small_disk / "outbox")
    recorder = Recorder(outbox, Redactor([]), Offsets(small_disk / "offset", outbox))
    following = engine_output.EngineOutput(small_disk / "output", recorder)
    printed = b"".join(b"line %d\n" % at for at in range(1_000_000))
    first_lines = printed.index(b"line 100\n")
    with open(small_disk / "output", "ab") as engine:
        engine.write(printed[:first_lines])
    await following.drain()
    with open(small_disk / "output", "ab") as engine:
        engine.write(printed[first_lines:])
    fill(small_disk / "ballast")
    draining = asyncio.create_task(following.drain())
    async with asyncio.timeout(10):
        while b"disk of this runner is full" not in b"".join(texts(outbox)):
            await asyncio.sleep(0.01)  # what says so is an event of the log itself
    before = outbox.last
    assert not draining.done()
    recorder.fact(Result("FAILED", "x" * 1_000_000))
    recorder.fact(Result("FAILED", "y" * 1_500_000))
    assert outbox.last == before + 2, "what may not wait has room"
    (small_disk / "ballast").unlink()
    await asyncio.wait_for(draining, 10)
    following.close()
    log = [record for _, record in outbox.records() if record.kind == Kind.LOG and record.stream == Stream.OUTPUT]
    assert b"".join(record.payload for record in log) == printed
    assert b"space on the runner's disk again" in b"".join(texts(outbox))
    assert os.stat(small_disk / "output").st_blocks * 512 < len(printed) + (1 << 16), "what was kept is given back"
