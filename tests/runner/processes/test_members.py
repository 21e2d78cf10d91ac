"""Every process of an attempt is found, also one that has started its own session and lost its parent."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from terracrew.attempt import directories
from terracrew.protocol.messages import CancelAttempt, Gone, Heartbeat
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.local.dispatcher import Handle, Local
from terracrew.runner.processes import cgroups
from terracrew.system import procfs
from tests.machine import cgroup
from tests.runner.conftest import ROOT, SOURCES, TIMEOUT_SECONDS, Runners, granted, refs, until_reported
from tests.runner.scripted_executors import ScriptedExecutors


@pytest.fixture(params=["cgroup", "subreaper"])
def mechanism(request: pytest.FixtureRequest) -> str:
    """The setting of a runner for each of the two ways in which the processes of an attempt are found."""
    return str(cgroup.parent()) if request.param == "cgroup" else "off"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def _is_alive(pid: int) -> bool:
    found = procfs.stat(pid)
    return found is not None and found.is_alive


@pytest.mark.feature("O4.adopted")
async def test_an_attempt_is_not_reported_gone_while_a_process_in_another_session_lives(
    runners: Runners, fifo: Path, mechanism: str
) -> None:
    """Symptom: a provisioner that starts its own session (`setsid`) escaped "every process of its session"."""
    _, peer = await runners.connected(cgroup=mechanism)
    executor = await runners.grant(peer)
    escaped = (await executor.tell(f"escape {fifo}"))["escaped"]
    await executor.kill()
    await until_reported(peer, ("job_1", 1))
    for _ in range(5):
        assert (await peer.receive(Heartbeat)).attempts == refs(("job_1", 1))
    assert _is_alive(escaped)
    assert runners.executors.is_empty
    assert not peer.received(Gone)
    fifo.write_text("")
    salvage = await runners.executors.next()
    assert salvage.facts["is_salvage"]
    assert not _is_alive(escaped)
    await salvage.tell("finish")
    gone = await peer.receive(Gone)
    assert (gone.reason, gone.is_delivered) == ("the executor was ended by signal 9", True)
    await runners.settle(peer)


@pytest.mark.feature("O4.adopted")
@pytest.mark.parametrize("is_executor_killed_first", [False, True])
async def test_a_restarted_runner_finds_a_process_in_another_session(
    runners: Runners, fifo: Path, mechanism: str, is_executor_killed_first: bool
) -> None:
    runner, peer = await runners.connected(cgroup=mechanism)
    executor = await runners.grant(peer)
    escaped = (await executor.tell(f"escape {fifo}"))["escaped"]
    if is_executor_killed_first:
        await executor.kill()
        await runner.kill()
    else:
        await runner.kill()
        await executor.kill()
    _, peer = await runners.connected(cgroup=mechanism)
    for _ in range(5):
        assert (await peer.receive(Heartbeat)).attempts == refs(("job_1", 1))
    assert _is_alive(escaped)
    assert runners.executors.is_empty
    fifo.write_text("")
    await (await runners.executors.next()).tell("finish")
    assert (await peer.receive(Gone)).is_delivered


@pytest.mark.feature("O4.adopted")
async def test_a_runner_with_another_setting_still_finds_what_its_predecessor_started(
    runners: Runners, fifo: Path
) -> None:
    runner, peer = await runners.connected(cgroup=str(cgroup.parent()))
    executor = await runners.grant(peer)
    escaped = (await executor.tell(f"escape {fifo}"))["escaped"]
    await runner.kill()
    await executor.kill()
    _, peer = await runners.connected(cgroup="off")
    for _ in range(3):
        await peer.receive(Heartbeat)
    assert _is_alive(escaped)
    assert runners.executors.is_empty
    await peer.send(CancelAttempt("job_1", 1, "interrupt"))
    await (await runners.executors.next()).tell("finish")
    assert (await peer.receive(Gone)).is_delivered
    assert not _is_alive(escaped)


@pytest.mark.feature("J9.reported")
async def test_a_cancel_through_the_runner_interrupts_a_process_in_another_session(
    runners: Runners, fifo: Path, mechanism: str
) -> None:
    _, peer = await runners.connected(cgroup=mechanism)
    executor = await runners.grant(peer)
    escaped = (await executor.tell(f"escape {fifo}"))["escaped"]
    await executor.kill()
    await peer.receive(Heartbeat)
    await peer.send(CancelAttempt("job_1", 1, "interrupt"))
    assert (await runners.executors.next()).facts["is_salvage"]
    assert not _is_alive(escaped)


# ---- the dispatcher alone


class Dispatcher:
    """A dispatcher `local` and one attempt that it has started."""

    def __init__(self, executors: ScriptedExecutors, folder: Path, mechanism: str, key: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"}
        self.local = Local("tests.runner.scripted_executor_process:run", environment, kill_seconds=0.1)
        if mechanism != "off":
            self.local.track_in(cgroups.find_cgroups(mechanism, key))
        folder.mkdir()
        self._theatre, self._folder = executors, folder

    async def escaped(self, fifo: Path) -> tuple[Handle, int]:
        """Start an executor, and in it a process in another session that ignores interrupts."""
        directory, folder = directories.create(self._folder, granted(), "http://server"), str(self._folder)
        start = ExecutorStart(
            "http://server",
            str(directory),
            folder,
            folder,
            folder,
            {"SCRIPTED_EXECUTORS": self._theatre.path},
            granted(),
        )
        handle = await self.local.start(start)
        executor = await self._theatre.next()
        return handle, (await executor.tell(f"escape-deaf {fifo}"))["escaped"]


@pytest.mark.feature("J9.escalation")
async def test_a_kill_ends_a_process_in_another_session_and_none_of_another_runner(
    executors: ScriptedExecutors, tmp_path: Path, fifo: Path, mechanism: str
) -> None:
    one = Dispatcher(executors, tmp_path / "one", mechanism, "one")
    two = Dispatcher(executors, tmp_path / "two", mechanism, "two")
    try:
        first, first_escaped = await one.escaped(fifo)
        second, second_escaped = await two.escaped(fifo)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            _, ended = await asyncio.gather(one.local.stop(first, "kill"), one.local.watch(first))
        assert ended.code == -signal.SIGKILL
        assert not _is_alive(first_escaped)
        assert _is_alive(second_escaped)
        assert _is_alive(second.process.pid)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.gather(two.local.stop(second, "kill"), two.local.watch(second))
        assert not _is_alive(second_escaped)
    finally:
        await one.local.close()
        await two.local.close()
    if mechanism != "off":
        assert not Path(first.process.cgroup).parent.exists(), "a runner that ends removes its empty cgroups"


async def test_a_runner_removes_its_own_empty_cgroups_when_it_starts_and_no_other(tmp_path: Path) -> None:
    parent = str(cgroup.parent())
    mine, other = cgroups.find_cgroups(parent, "mine"), cgroups.find_cgroups(parent, "other")
    left, others = mine.make("job_1.1"), other.make("job_1.1")
    (left / "made-by-an-engine").mkdir()
    cgroups.find_cgroups(parent, "mine")
    assert not left.exists()
    assert others.exists()
    for made in (others, other.root, mine.root):
        made.rmdir()


async def test_an_executor_that_cannot_join_its_cgroup_gets_a_subreaper(
    executors: ScriptedExecutors, tmp_path: Path, fifo: Path
) -> None:
    it = Dispatcher(executors, tmp_path / "one", "off", "one")
    try:
        it.local.make_cgroup = lambda name, limits: str(tmp_path / "not a cgroup" / name)
        handle, escaped = await it.escaped(fifo)
        assert handle.process.cgroup == ""
        assert handle.process.subreaper is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.gather(it.local.stop(handle, "kill"), it.local.watch(handle))
        assert not _is_alive(escaped)
    finally:
        await it.local.close()
