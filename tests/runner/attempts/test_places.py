"""A supervisor whose executors have disks of their own, up to the moment at which the runner is killed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import delivered, directories, exit_codes, files, ownership, process_record
from terracrew.protocol.dispatcher_choice import DEFAULT, DispatcherChoice
from terracrew.protocol.messages import AttemptRef, CancelMode, Gone, HandBack
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.attempts import executor_starts
from terracrew.runner.attempts.reports import Report, Reports
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.dispatch.dispatchers import Dispatchers, OpenedDispatcher
from terracrew.runner.dispatch.protocol import AttemptEnd
from terracrew.runner.instance import LocalInstance
from tests.runner.conftest import TIMEOUT_SECONDS, Runners, granted, until_gone

NAME = "job_1.1"


class FarAway:
    """A dispatcher with one attempt, whose executor wrote to a disk that only this object reaches."""

    def __init__(self, *codes: int) -> None:
        self.place, self.codes = self, list(codes)
        self.disk: str | None = "the only copy of a state"
        self.is_removing, self.may_remove = asyncio.Event(), asyncio.Event()
        self.may_end = asyncio.Event()
        self.cause = ""
        """Why the executor was told to end, which only the dispatcher knows."""
        self.marks: list[str] = []
        """The files that were there when something was removed, and by which it is found."""
        self.refusals = 0
        """How often a request to stop fails before it succeeds."""

    def use_instance(self, key: str) -> None: ...

    async def engines(self) -> None:
        return None

    async def start(self, start: ExecutorStart) -> Path:
        directory = Path(start.directory)
        ownership.sign(directory, process_record.ProcessRecord(1, 1, "", is_salvage=start.is_salvage))
        return directory

    def adopt(self, directory: Path) -> Path:
        return directory

    async def watch(self, handle: Path) -> AttemptEnd:
        await self.may_end.wait()
        return AttemptEnd(self.codes.pop(0) if self.disk else exit_codes.NOTHING_LEFT, self.cause)

    async def stop(self, handle: Path, mode: CancelMode) -> None:
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("the daemon refuses")
        self.may_end.set()

    async def retrieve(self, directory: Path, /) -> None:
        (directory / "everything").write_text(self.disk or "")

    async def remove(self, directory: Path, /) -> None:
        self.disk = None
        self.marks += [path.name for path in directory.glob(files.CONTAINER)]
        self.is_removing.set()
        await self.may_remove.wait()

    async def sweep(self, _kept: Callable[[], Collection[Path]], /) -> None: ...

    async def close(self) -> None: ...


@asynccontextmanager
async def supervising(
    runners: Runners, dispatcher: FarAway, named: FarAway | None = None
) -> AsyncGenerator[tuple[AttemptSupervisor, list[Report]]]:
    """A supervisor that is cut off at the end, and a server that acknowledges everything."""
    reports, said = Reports(), list[Report]()

    def acknowledge(report: Report) -> None:
        said.append(report)
        asyncio.get_running_loop().call_soon(reports.settled, AttemptRef(report.job_id, report.attempt))

    reports.send = acknowledge
    config = runners.config()
    opened = [OpenedDispatcher(DEFAULT, "local", dispatcher)]
    opened += [OpenedDispatcher("second", "local", named)] if named else []
    instance = LocalInstance(config.working_directory)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS), asyncio.TaskGroup() as tasks:
            supervisor = AttemptSupervisor(config, instance, Dispatchers(opened), Slots(1), reports, {}, tasks)
            supervisor.recover()
            yield supervisor, said
            supervisor.stop_watching()
    finally:
        instance.release()


@pytest.mark.feature("O4.salvaged")
async def test_a_runner_that_dies_while_it_keeps_what_the_server_refused_loses_nothing(runners: Runners) -> None:
    """Symptom: the next process found neither a container nor a volume, and removed the copy as if nothing were left."""
    dispatcher = FarAway(exit_codes.CRASHED, exit_codes.UNDELIVERED)
    dispatcher.may_end.set()
    async with supervising(runners, dispatcher) as (supervisor, _):
        supervisor.take(granted())
        await dispatcher.is_removing.wait()
    dispatcher.may_remove.set()
    async with supervising(runners, dispatcher):
        await until_gone(runners.attempts / NAME)
    kept = runners.directory / "undelivered" / NAME / "everything"
    assert kept.read_text() == "the only copy of a state"


@pytest.mark.feature("O4.salvaged")
async def test_a_dispatcher_can_read_which_container_to_remove_when_what_the_server_refused_is_kept(
    runners: Runners,
) -> None:
    """The directory was elsewhere by then, so a container that was not named after its attempt stayed until the next sweep."""
    dispatcher = FarAway(exit_codes.CRASHED, exit_codes.UNDELIVERED)
    async with supervising(runners, dispatcher) as (supervisor, _):
        supervisor.take(granted())
        while not (runners.attempts / NAME / files.PID).exists():
            await asyncio.sleep(0.01)
        (runners.attempts / NAME / files.CONTAINER).write_text("its name")
        dispatcher.may_end.set()
        await dispatcher.is_removing.wait()
    assert dispatcher.marks == [files.CONTAINER]


@pytest.mark.feature("D1.asked", "O4.salvaged")
async def test_what_the_server_refused_is_removed_from_the_dispatcher_that_the_job_asked_for(runners: Runners) -> None:
    """Symptom: the default dispatcher was asked to remove it, and the volume of the other one stayed."""
    default, second = FarAway(), FarAway(exit_codes.CRASHED, exit_codes.UNDELIVERED)
    second.may_end.set()
    second.may_remove.set()
    plain = granted()
    spec = msgspec.structs.replace(plain.spec, choice=DispatcherChoice("second"))
    async with supervising(runners, default, second) as (supervisor, _):
        supervisor.take(msgspec.structs.replace(plain, spec=spec))
        await second.is_removing.wait()
    assert not default.is_removing.is_set()
    assert (runners.directory / "undelivered" / NAME / "everything").exists()


@pytest.mark.feature("O4.adopted")
async def test_a_runner_that_dies_while_it_removes_what_was_delivered_does_not_report_it_as_gone(
    runners: Runners,
) -> None:
    dispatcher = FarAway(exit_codes.DELIVERED)
    async with supervising(runners, dispatcher) as (supervisor, _):
        supervisor.take(granted())
        directory = runners.attempts / NAME
        while not (directory / files.PID).exists():
            await asyncio.sleep(0.01)
        delivered.mark_done(directory, 7)
        dispatcher.may_end.set()
        await dispatcher.is_removing.wait()
    dispatcher.may_remove.set()
    async with supervising(runners, dispatcher) as (_, said):
        await until_gone(directory)
    assert not [report for report in said if isinstance(report, Gone | HandBack)]


@pytest.mark.feature("J9.escalation")
async def test_a_request_to_stop_that_fails_is_repeated_and_the_runner_goes_on(runners: Runners) -> None:
    dispatcher = FarAway(exit_codes.DELIVERED)
    dispatcher.refusals = 1
    runners.attempts.mkdir()
    directory = directories.create(runners.attempts, granted(), "http://server")
    await dispatcher.start(ExecutorStart("http://server", str(directory), "", "", "", {}))
    delivered.mark_done(directory, 7)
    dispatcher.may_remove.set()
    async with supervising(runners, dispatcher) as (supervisor, _):
        supervisor.cancel(AttemptRef("job_1", 1), "kill")
        await until_gone(directory)
    assert dispatcher.refusals == 0


@pytest.mark.feature("O3.requeued")
async def test_the_server_is_told_why_an_executor_that_delivered_everything_was_ended(runners: Runners) -> None:
    dispatcher = FarAway(exit_codes.DELIVERED)
    dispatcher.cause = "the pod was evicted"
    dispatcher.may_remove.set()
    async with supervising(runners, dispatcher) as (supervisor, said):
        supervisor.take(granted())
        directory = runners.attempts / NAME
        while not (directory / files.PID).exists():
            await asyncio.sleep(0.01)
        delivered.mark_done(directory, 7)
        dispatcher.may_end.set()
        await until_gone(directory)
    assert said == [Gone("job_1", 1, saw_process=True, reason="the pod was evicted", last=7, is_delivered=True)]


@pytest.mark.feature("D6.watched")
async def test_the_server_is_told_where_an_executor_has_to_connect_to(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Symptom: with a wrong address of the server in its containers, a job waited for ever, and nothing named the address."""
    monkeypatch.setattr(executor_starts, "CONNECT_SECONDS", 0.0)
    dispatcher = FarAway(exit_codes.DELIVERED, exit_codes.DELIVERED)
    dispatcher.may_remove.set()
    async with supervising(runners, dispatcher) as (supervisor, _):
        supervisor.take(granted())
        while not supervisor.starting:
            await asyncio.sleep(0.01)
    async with supervising(runners, dispatcher) as (supervisor, _):
        while not supervisor.starting:
            await asyncio.sleep(0.01)
        [start] = supervisor.starting
        assert start.reason == f"its executor runs, but has not connected: can it reach {runners.hub.url}?"
        assert start.running_seconds > 0
        dispatcher.may_end.set()
        await until_gone(runners.attempts / NAME)
        while supervisor.starting:
            await asyncio.sleep(0.01)
