"""The executor that is ready before its job: it runs at most one attempt, and what happens to it costs no job."""

import asyncio
import contextlib
import errno
import fcntl
import os
import resource
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from terracrew import procfs
from terracrew.attempt import directories, files, ownership
from terracrew.protocol.spec import JobLimits
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch import zygote
from terracrew.runner.dispatch.local import Local
from terracrew.runner.dispatch.zygote_client import Channel
from terracrew.runner.one_job import OneJobSettings
from terracrew.runner.processes import cgroup_discovery, cgroups
from terracrew.runner.processes.cgroups import Cgroups
from tests.machine import cgroup
from tests.runner.conftest import ROOT, SOURCES, TIMEOUT_SECONDS, Runners, granted
from tests.runner.scripted_executors import ScriptedExecutors

KEPT_SECONDS = 1.0


class LocalAttempts:
    """A dispatcher `local`, and the attempts that it starts."""

    def __init__(self, executors: ScriptedExecutors, folder: Path, mechanism: str, kept_seconds: float) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"}
        entry = "tests.runner.scripted_executor_process:run"
        self.local = Local(entry, environment, kill_seconds=0.1, spare_seconds=kept_seconds)
        self._cgroups: Path | None = None
        if mechanism != "off":
            found = cgroup_discovery.find(mechanism, secrets.token_hex(8))
            self.local.track_in(found)
            self._cgroups = found.root
        self.executors, self._folder, self._count = executors, str(folder), 0

    @property
    def cgroups_of_spares(self) -> list[Path]:
        return [] if self._cgroups is None else list(self._cgroups.glob("spare-*"))

    def start_of_next(self, limits: JobLimits | None = None) -> ExecutorStart:
        self._count += 1
        grant = granted(attempt=self._count)
        if limits is not None:
            grant = msgspec.structs.replace(grant, spec=msgspec.structs.replace(grant.spec, limits=limits))
        directory = directories.create(Path(self._folder), grant, "http://server")
        environment = {"SCRIPTED_EXECUTORS": self.executors.path}
        return ExecutorStart(
            "http://server", str(directory), self._folder, self._folder, self._folder, environment, grant
        )

    async def run_one(self) -> int:
        """Run an attempt from its start to its end, and return the process that ran it."""
        handle = await self.local.start(self.start_of_next())
        executor = await self.executors.next()
        assert executor.pid == handle.process.pid
        await executor.tell("exit 0")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert (await self.local.watch(handle)).code == 0
        return executor.pid

    async def spare(self) -> int:
        """Return the process that waits, when there is one."""
        await until(lambda: self.local.spare is not None)
        assert self.local.spare is not None
        return self.local.spare.pid


@pytest.fixture(params=["cgroup", "subreaper"])
def mechanism(request: pytest.FixtureRequest) -> str:
    return str(cgroup.parent()) if request.param == "cgroup" else "off"


@pytest.fixture
def kept_seconds() -> float:
    return TIMEOUT_SECONDS


@pytest.fixture
async def attempts(
    executors: ScriptedExecutors, tmp_path: Path, mechanism: str, kept_seconds: float
) -> AsyncIterator[LocalAttempts]:
    made = LocalAttempts(executors, tmp_path, mechanism, kept_seconds)
    yield made
    await made.local.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not is_so():
            await asyncio.sleep(0.01)


def zygote_of(local: Local) -> int:
    pid = local._zygote.pid  # pyright: ignore[reportPrivateUsage]
    assert pid
    return pid


def is_alive(pid: int) -> bool:
    found = procfs.stat(pid)
    return found is not None and found.is_alive


async def test_the_next_attempt_is_run_by_the_process_that_waits(attempts: LocalAttempts) -> None:
    first = await attempts.run_one()
    spare = await attempts.spare()
    assert spare != first
    assert await attempts.run_one() == spare
    assert await attempts.spare() not in (first, spare)


async def test_of_two_attempts_at_once_one_gets_the_process_that_waits(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    spare = await attempts.spare()
    starts = [attempts.start_of_next() for _ in range(2)]
    handles = await asyncio.gather(*map(attempts.local.start, starts))
    found = {(await attempts.executors.next()).pid for _ in range(2)}
    assert found == {handle.process.pid for handle in handles}
    assert spare in found
    for start, handle in zip(starts, handles, strict=True):
        process = ownership.process_of(Path(start.directory))
        assert process is not None
        assert process == handle.process


async def test_one_that_was_killed_costs_no_attempt(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    spare = await attempts.spare()
    os.kill(spare, signal.SIGKILL)
    while is_alive(spare):  # without letting the dispatcher notice
        time.sleep(0.001)
    assert await attempts.run_one() != spare


async def test_one_that_dies_with_its_attempt_before_it_has_begun_leaves_it_to_others(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    spare = await attempts.spare()
    os.kill(spare, signal.SIGSTOP)
    start = attempts.start_of_next()
    handle = await attempts.local.start(start)
    assert handle.process.pid == spare
    os.kill(spare, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert (await attempts.local.watch(handle)).code == -signal.SIGKILL
    assert ownership.forbid_start(Path(start.directory)), "nothing has begun, so the attempt may be handed back"
    assert attempts.executors.is_empty


async def test_it_does_not_run_an_attempt_that_was_handed_back_before_it_had_begun(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    os.kill(spare := await attempts.spare(), signal.SIGSTOP)
    start = attempts.start_of_next()
    handle = await attempts.local.start(start)
    assert ownership.forbid_start(Path(start.directory))
    os.kill(spare, signal.SIGCONT)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await attempts.local.watch(handle)
    assert attempts.executors.is_empty


async def test_it_ends_with_the_runner(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    spare = await attempts.spare()
    await attempts.local.close()
    assert not is_alive(spare)


async def test_it_ends_if_the_zygote_dies_and_the_next_attempt_runs(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    spare = await attempts.spare()
    os.kill(zygote_of(attempts.local), signal.SIGKILL)
    await until(lambda: not is_alive(spare))
    assert await attempts.run_one() != spare


@pytest.mark.parametrize("kept_seconds", [KEPT_SECONDS])
async def test_one_that_is_not_needed_ends_and_leaves_no_cgroup(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    spare = await attempts.spare()
    assert attempts.local.spare is not None
    place = attempts.local.spare.cgroup
    assert not place or Path(place).exists()
    await until(lambda: not is_alive(spare))
    await until(lambda: not place or not Path(place).exists())
    assert await attempts.run_one() != spare


async def test_the_limits_of_a_job_are_set_where_its_process_already_is(
    attempts: LocalAttempts, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mechanism == "off":
        pytest.skip("without cgroups, only the executor watches the limits")
    limited: list[tuple[Path, JobLimits]] = []

    def record(_: Cgroups, path: Path, limits: JobLimits) -> None:
        limited.append((path, limits))

    monkeypatch.setattr(Cgroups, "limit", record)
    await attempts.run_one()
    spare = await attempts.spare()
    handle = await attempts.local.start(attempts.start_of_next(JobLimits(processes=100)))
    assert handle.process.pid == spare
    assert limited[-1] == (Path(handle.process.cgroup), JobLimits(processes=100))
    assert spare in cgroups.processes(handle.process.cgroup)


async def test_limits_that_could_be_set_only_in_part_are_not_those_of_the_next_job(
    attempts: LocalAttempts, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mechanism == "off":
        pytest.skip("without cgroups, only the executor watches the limits")

    def refuse(_: Cgroups, path: Path, limits: JobLimits) -> None:
        if limits.processes:
            raise OSError(errno.EINVAL, f"{path} cannot have this limit")

    monkeypatch.setattr(Cgroups, "limit", refuse)
    await attempts.run_one()
    spare = await attempts.spare()
    limited = await attempts.local.start(attempts.start_of_next(JobLimits(processes=100)))
    assert limited.process.pid != spare
    assert (await attempts.local.start(attempts.start_of_next())).process.pid != spare
    await until(lambda: not is_alive(spare))


async def test_its_cgroup_is_found_if_the_record_of_its_attempt_is_damaged(
    attempts: LocalAttempts, mechanism: str
) -> None:
    if mechanism == "off":
        pytest.skip("this is about cgroups")
    await attempts.run_one()
    spare = await attempts.spare()
    start = attempts.start_of_next()
    handle = await attempts.local.start(start)
    await attempts.executors.next()
    (Path(start.directory) / files.PID).write_bytes(b"damaged")
    assert attempts.local.adopt(Path(start.directory)).process == handle.process
    assert handle.process.pid == spare


@pytest.mark.parametrize("kept_seconds", [3 * KEPT_SECONDS])
async def test_an_attempt_that_ends_while_it_waits_does_not_cause_another_one(attempts: LocalAttempts) -> None:
    """Symptom: one ended after five minutes, and was replaced at once, although no job had come."""
    handle = await attempts.local.start(attempts.start_of_next())
    executor = await attempts.executors.next()
    spare = await attempts.spare()
    await executor.tell("exit 0")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await attempts.local.watch(handle)
    await until(lambda: not is_alive(spare))
    await asyncio.sleep(KEPT_SECONDS / 2)
    assert attempts.local.spare is None


async def test_a_runner_that_ends_after_one_job_has_none(runners: Runners) -> None:
    runner, peer = await runners.connected(one_job=OneJobSettings())
    await runners.grant(peer)
    (zygote_pid,) = procfs.children(runner.pid)
    await asyncio.sleep(2.0)  # longer than a runner waits until it prepares one
    assert len(procfs.children(zygote_pid)) == 1


async def test_it_ends_if_the_runner_is_killed(runners: Runners) -> None:
    runner, peer = await runners.connected()
    await runners.grant(peer)
    (zygote_pid,) = procfs.children(runner.pid)
    first = procfs.children(zygote_pid)
    await until(lambda: len(procfs.children(zygote_pid)) == 2)
    (spare,) = set(procfs.children(zygote_pid)) - set(first)
    await runner.kill()
    await until(lambda: not is_alive(spare))
    assert is_alive(first[0]), "the executor of a job continues"


async def test_a_runner_without_free_descriptors_leaves_no_cgroup(
    attempts: LocalAttempts, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    if mechanism == "off":
        pytest.skip("this is about cgroups")
    await attempts.run_one()
    os.kill(await attempts.spare(), signal.SIGKILL)
    await until(lambda: attempts.local.spare is None and not attempts.cgroups_of_spares)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        attempts.local._spare.ended()  # pyright: ignore[reportPrivateUsage]
        await until(lambda: "no executor could be prepared" in caplog.text)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert attempts.cgroups_of_spares == []


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Allow numbers above 1,024, the usual limit of a login, which everybody may raise."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= 1024:
        pytest.skip(f"this user may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_what_is_to_be_run_is_read_from_a_descriptor_of_any_number() -> None:
    """Symptom: with 1,000 executors, no further one could start: "filedescriptor out of range in select()"."""
    start = ExecutorStart("http://server", "/attempt", "/workspaces", "/cache", "/engine", {})
    with contextlib.closing(Channel()) as channel:
        channel.begin(start)
        with socket.socket(fileno=fcntl.fcntl(channel.theirs, fcntl.F_DUPFD, 1024)) as child:
            assert zygote._receive_start(child, lambda: None) == start  # pyright: ignore[reportPrivateUsage]


async def test_one_that_is_being_forked_when_the_runner_ends_leaves_nothing(attempts: LocalAttempts) -> None:
    await attempts.run_one()
    os.kill(pid := zygote_of(attempts.local), signal.SIGSTOP)
    await asyncio.sleep(0.2)  # by now it has been asked for
    closing = asyncio.create_task(attempts.local.close())
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGCONT)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await closing
    assert not procfs.children(pid)
    assert attempts.cgroups_of_spares == []
