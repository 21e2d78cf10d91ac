"""Every process of an attempt is found, also one that has started its own session and lost its parent."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from terracrew import procfs
from terracrew.attempt import directories
from terracrew.protocol.messages import CancelAttempt, Gone, Heartbeat, Settled
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.local import Handle, Local
from terracrew.runner.processes import cgroup_discovery
from tests.machine import cgroup
from tests.runner.conftest import BOUND, ROOT, SOURCES, Bench, granted, refs, until_gone
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


@pytest.mark.feature("O4")
async def test_an_attempt_is_not_reported_gone_while_a_process_in_another_session_lives(
    bench: Bench, fifo: Path, mechanism: str
) -> None:
    """Symptom: a provisioner that starts its own session (`setsid`) escaped "every process of its session"."""
    await bench.start(cgroup=mechanism)
    peer = await bench.hub.peer()
    actor = await bench.grant(peer)
    escaped = (await actor.tell(f"escape {fifo}"))["escaped"]
    await actor.kill()
    for _ in range(5):
        assert (await peer.hear(Heartbeat)).attempts == refs(("job_1", 1))
    assert _is_alive(escaped)
    assert bench.theatre.is_empty
    assert not peer.heard(Gone)
    fifo.write_text("")
    salvage = await bench.theatre.actor()
    assert salvage.facts["is_salvage"]
    assert not _is_alive(escaped)
    await salvage.tell("finish")
    gone = await peer.hear(Gone)
    assert (gone.reason, gone.is_delivered) == ("the executor was ended by signal 9", True)
    await peer.say(Settled("job_1", 1))
    await until_gone(bench.attempts / "job_1.1")


@pytest.mark.feature("O4")
@pytest.mark.parametrize("is_executor_killed_first", [False, True])
async def test_a_restarted_runner_finds_a_process_in_another_session(
    bench: Bench, fifo: Path, mechanism: str, is_executor_killed_first: bool
) -> None:
    runner = await bench.start(cgroup=mechanism)
    actor = await bench.grant(await bench.hub.peer())
    escaped = (await actor.tell(f"escape {fifo}"))["escaped"]
    if is_executor_killed_first:
        await actor.kill()
        await runner.kill()
    else:
        await runner.kill()
        await actor.kill()
    await bench.start(cgroup=mechanism)
    peer = await bench.hub.peer()
    for _ in range(5):
        assert (await peer.hear(Heartbeat)).attempts == refs(("job_1", 1))
    assert _is_alive(escaped)
    assert bench.theatre.is_empty
    fifo.write_text("")
    await (await bench.theatre.actor()).tell("finish")
    assert (await peer.hear(Gone)).is_delivered


@pytest.mark.feature("O4")
async def test_a_runner_with_another_setting_still_finds_what_its_predecessor_started(bench: Bench, fifo: Path) -> None:
    runner = await bench.start(cgroup=str(cgroup.parent()))
    actor = await bench.grant(await bench.hub.peer())
    escaped = (await actor.tell(f"escape {fifo}"))["escaped"]
    await runner.kill()
    await actor.kill()
    await bench.start(cgroup="off")
    peer = await bench.hub.peer()
    for _ in range(3):
        await peer.hear(Heartbeat)
    assert _is_alive(escaped)
    assert bench.theatre.is_empty
    await peer.say(CancelAttempt("job_1", 1, "interrupt"))
    await (await bench.theatre.actor()).tell("finish")
    assert (await peer.hear(Gone)).is_delivered
    assert not _is_alive(escaped)


@pytest.mark.feature("J9")
async def test_a_cancel_through_the_runner_interrupts_a_process_in_another_session(
    bench: Bench, fifo: Path, mechanism: str
) -> None:
    await bench.start(cgroup=mechanism)
    peer = await bench.hub.peer()
    actor = await bench.grant(peer)
    escaped = (await actor.tell(f"escape {fifo}"))["escaped"]
    await actor.kill()
    await peer.hear(Heartbeat)
    await peer.say(CancelAttempt("job_1", 1, "interrupt"))
    assert (await bench.theatre.actor()).facts["is_salvage"]
    assert not _is_alive(escaped)


# ---- the dispatcher alone


class Dispatcher:
    """A dispatcher `local` and one attempt that it has started."""

    def __init__(self, theatre: ScriptedExecutors, folder: Path, mechanism: str, key: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"}
        self.local = Local("tests.runner.scripted_executor_process:run", environment, kill_seconds=0.1)
        if mechanism != "off":
            self.local.track_in(cgroup_discovery.find(mechanism, key))
        folder.mkdir()
        self._theatre, self._folder = theatre, folder

    async def escaped(self, fifo: Path) -> tuple[Handle, int]:
        """Start an executor, and in it a process in another session that ignores interrupts."""
        directory, folder = directories.create(self._folder, granted(), "http://server"), str(self._folder)
        start = ExecutorStart(
            "http://server", str(directory), folder, folder, folder, {"STAGE": self._theatre.path}, granted()
        )
        handle = await self.local.start(start)
        actor = await self._theatre.actor()
        return handle, (await actor.tell(f"escape-deaf {fifo}"))["escaped"]


@pytest.mark.feature("J9")
async def test_a_kill_ends_a_process_in_another_session_and_none_of_another_runner(
    theatre: ScriptedExecutors, tmp_path: Path, fifo: Path, mechanism: str
) -> None:
    one = Dispatcher(theatre, tmp_path / "one", mechanism, "one")
    two = Dispatcher(theatre, tmp_path / "two", mechanism, "two")
    try:
        first, first_escaped = await one.escaped(fifo)
        second, second_escaped = await two.escaped(fifo)
        async with asyncio.timeout(BOUND):
            _, code = await asyncio.gather(one.local.stop(first, "kill"), one.local.watch(first))
        assert code == -signal.SIGKILL
        assert not _is_alive(first_escaped)
        assert _is_alive(second_escaped)
        assert _is_alive(second.process.pid)
        async with asyncio.timeout(BOUND):
            await asyncio.gather(two.local.stop(second, "kill"), two.local.watch(second))
        assert not _is_alive(second_escaped)
    finally:
        await one.local.close()
        await two.local.close()
    if mechanism != "off":
        assert not Path(first.process.cgroup).parent.exists(), "a runner that ends removes its empty cgroups"


async def test_a_runner_removes_its_own_empty_cgroups_when_it_starts_and_no_other(tmp_path: Path) -> None:
    parent = str(cgroup.parent())
    mine, other = cgroup_discovery.find(parent, "mine"), cgroup_discovery.find(parent, "other")
    left, others = mine.make("job_1.1"), other.make("job_1.1")
    (left / "made-by-an-engine").mkdir()
    cgroup_discovery.find(parent, "mine")
    assert not left.exists()
    assert others.exists()
    for made in (others, other.root, mine.root):
        made.rmdir()


async def test_an_executor_that_cannot_join_its_cgroup_gets_a_subreaper(
    theatre: ScriptedExecutors, tmp_path: Path, fifo: Path
) -> None:
    it = Dispatcher(theatre, tmp_path / "one", "off", "one")
    try:
        it.local._cgroup = lambda name: str(tmp_path / "not a cgroup" / name)
        handle, escaped = await it.escaped(fifo)
        assert handle.process.cgroup == ""
        assert handle.process.subreaper is not None
        async with asyncio.timeout(BOUND):
            await asyncio.gather(it.local.stop(handle, "kill"), it.local.watch(handle))
        assert not _is_alive(escaped)
    finally:
        await it.local.close()
