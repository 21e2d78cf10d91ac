"""What a runner does with records that a power cut damaged: what can be delivered is, and nothing is tried for ever."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from terracrew.attempt import files, ownership, process_record
from terracrew.protocol.messages import Gone, HandBack, Heartbeat, Settled
from terracrew.runner.dispatch.local.dispatcher import Handle, Local
from terracrew.runner.processes import members
from terracrew.system import procfs
from tests.runner.conftest import Runners, refs, until_gone

pytestmark = pytest.mark.feature("O4.salvaged")


@pytest.mark.parametrize("left", [b"", b'{"process":{"pid":1', b"\0" * 64])
async def test_an_attempt_whose_process_record_is_damaged_is_salvaged(runners: Runners, left: bytes) -> None:
    """Symptom: `pid` came back with 0 bytes. The runner named the attempt and could not follow it, so the job was stuck."""
    directory = runners.directory_of_attempt()
    (directory / "pid").write_bytes(left)
    runner, peer = await runners.connected()
    assert peer.hello.attempts == refs(("job_1", 1))
    salvage = await runners.executors.next()
    assert salvage.facts["is_salvage"]
    await salvage.tell("finish")
    gone = await peer.receive(Gone)
    assert (gone.saw_process, gone.last, gone.is_delivered) == (True, 7, True)
    await peer.send(Settled("job_1", 1))
    await until_gone(directory)
    assert "Traceback" not in runner.output


async def test_a_process_of_an_attempt_with_a_damaged_record_is_waited_for(runners: Runners, tmp_path: Path) -> None:
    """A record can also be damaged while its process lives: it is then found by the directory that it works in."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    engine = (await executor.tell(f"engine {fifo}"))["engine"]
    await runner.kill()
    await executor.kill()
    (runners.attempts / "job_1.1" / "pid").write_bytes(b"")
    _, peer = await runners.connected()
    for _ in range(3):
        assert (await peer.receive(Heartbeat)).attempts == refs(("job_1", 1))
    assert procfs.stat(engine)
    assert runners.executors.is_empty
    fifo.write_text("")
    salvage = await runners.executors.next()
    await salvage.tell("finish")
    assert (await peer.receive(Gone)).is_delivered


async def test_the_executor_of_a_damaged_record_is_found_by_the_lock_that_it_holds(runners: Runners) -> None:
    """Nobody can ask in which directory an executor works, since it cannot be inspected by other processes of its user."""
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    await runner.kill()
    (runners.attempts / "job_1.1" / "pid").write_bytes(b"")
    found = members.holder_of(runners.attempts / "job_1.1" / files.LOCK)
    assert found is not None
    assert (found.pid, found.is_guess) == (executor.facts["pid"], False)
    await executor.tell("finish")


async def test_a_process_that_was_found_only_by_its_directory_is_never_sent_a_signal(tmp_path: Path) -> None:
    """An operator's shell in the directory of an attempt with a damaged record was killed when the job was canceled."""
    shell = await asyncio.create_subprocess_exec("sleep", "600", cwd=tmp_path, start_new_session=True)
    try:
        found = members.found_in([tmp_path])
        assert found is not None
        assert found.pid == shell.pid
        members.send(found, signal.SIGTERM)
        members.kill(found)
        local = Local.__new__(Local)  # without the process that executors are forked from
        async with asyncio.timeout(5):
            await local.stop(Handle(found, os.pidfd_open(shell.pid)), "kill")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await shell.wait()
    finally:
        shell.kill()
        await shell.wait()


async def test_an_attempt_whose_own_record_is_damaged_is_reported_and_kept_for_a_person(
    runners: Runners,
) -> None:
    """Without `attempt.json` nobody has the credential to deliver with. The server must not wait for this attempt."""
    directory = runners.directory_of_attempt()
    ownership.sign(directory, process_record.ProcessRecord(1, 1, "an earlier boot"))
    (directory / "attempt.json").write_bytes(b"")
    (directory / "outbox").write_bytes(b"events")
    _, peer = await runners.connected()
    gone = await peer.receive(Gone)
    assert (gone.saw_process, gone.last, gone.is_delivered) == (True, None, False)
    await peer.send(Settled("job_1", 1))
    await until_gone(directory)
    assert (runners.directory / "undelivered" / "job_1.1" / "outbox").read_bytes() == b"events"


async def test_a_grant_whose_record_is_damaged_and_that_no_process_signed_is_handed_back(
    runners: Runners,
) -> None:
    """`pid` is durable before an executor does anything: without it nothing ran, whatever else is damaged."""
    directory = runners.directory_of_attempt()
    (directory / "attempt.json").write_bytes(b"")
    _, peer = await runners.connected()
    assert (await peer.receive(HandBack)).job_id == "job_1"
    await peer.send(Settled("job_1", 1))
    await until_gone(directory)


async def test_a_mark_of_delivery_that_came_back_empty_does_not_count(runners: Runners) -> None:
    """Symptom: an empty `done` was taken for a delivery of an unknown number of events."""
    directory = runners.directory_of_attempt()
    ownership.sign(directory, process_record.ProcessRecord(1, 1, "an earlier boot", is_salvage=True))
    (directory / "done").write_bytes(b"")
    _, peer = await runners.connected()
    await (await runners.executors.next()).tell("finish")
    assert (await peer.receive(Gone)).last == 7


async def test_an_attempt_that_cannot_be_followed_is_not_named(runners: Runners) -> None:
    """Symptom: the runner named an attempt in every heartbeat that it could do nothing about, so the server waited for it."""
    directory = runners.directory_of_attempt()
    (directory / "pid").mkdir()  # cannot be read, for a reason that nobody thought of
    runner, peer = await runners.connected()
    async with asyncio.timeout(30):
        while (await peer.receive(Heartbeat)).attempts:
            pass
    assert "could not be followed" in runner.output
    (directory / "pid").rmdir()
    assert (await peer.receive(HandBack)).job_id == "job_1"


async def test_a_workspace_whose_link_was_lost_is_found_by_its_name(runners: Runners) -> None:
    directory = runners.directory_of_attempt()
    ownership.sign(directory, process_record.ProcessRecord(1, 1, "an earlier boot"))
    runners.workspaces.mkdir()
    (runners.workspaces / "job_1.1").mkdir()
    _, peer = await runners.connected()
    salvage = await runners.executors.next()
    assert "workspace" in salvage.facts["files"]
    await salvage.tell("finish")
    await peer.receive(Gone)
    await peer.send(Settled("job_1", 1))
    await until_gone(runners.workspaces / "job_1.1")
