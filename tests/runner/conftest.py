"""Real runner processes against a real server; only the executor they fork is the test's own."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import terracrew
from terracrew.attempt import directories
from terracrew.protocol.messages import AttemptRef, Granted, Heartbeat, Settled
from terracrew.protocol.spec import Credentials, JobSpec, JobType, LocalSource, StateSeed
from terracrew.runner import environment, handover
from terracrew.runner.config import RunnerConfig
from terracrew.runner.one_job import OneJobSettings
from tests.builders import fake_runner_hub
from tests.builders.fake_runner_hub import FakeRunnerHub, Peer
from tests.runner import scripted_executors
from tests.runner.scripted_executors import ScriptedExecutor, ScriptedExecutors

ROOT = Path(__file__).parents[2]
SOURCES = Path(terracrew.__file__).parents[1]
TIMEOUT_SECONDS = 60.0


@pytest.fixture
async def hub() -> AsyncIterator[FakeRunnerHub]:
    async with fake_runner_hub.serving() as server:
        yield server


@pytest.fixture
async def executors() -> AsyncIterator[ScriptedExecutors]:
    async with scripted_executors.opened() as opened:
        yield opened


class RunnerProcess:
    def __init__(self, process: asyncio.subprocess.Process, output: Path) -> None:
        self._process, self.log = process, output
        self.pid = process.pid

    @property
    def output(self) -> str:
        return self.log.read_text()

    async def until_logged(self, text: str) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while text not in self.output:
                await asyncio.sleep(0.01)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self._process.wait()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()


class Runners:
    """Starts runners on one working directory, and plays the server's part."""

    def __init__(self, hub: FakeRunnerHub, executors: ScriptedExecutors, directory: Path) -> None:
        self.hub, self.executors, self.directory = hub, executors, directory
        self.environment = {"SCRIPTED_EXECUTORS": executors.path, "PYTHONPATH": f"{ROOT}:{SOURCES}"}
        self.inherited: list[int] = []
        """Descriptors of the test that each runner inherits."""
        self._runners: list[RunnerProcess] = []

    @property
    def attempts(self) -> Path:
        return self.directory / "attempts"

    @property
    def workspaces(self) -> Path:
        return self.directory / "workspaces"

    def workspace(self, attempt: str, name: str) -> Path:
        """Make a workspace for an attempt, as its executor does."""
        path = self.workspaces / name
        path.mkdir()
        (self.attempts / attempt / "workspace").symlink_to(path)
        return path

    def config(self, **changes: Any) -> RunnerConfig:
        config = RunnerConfig(
            server_url=self.hub.url,
            runner_id="rnr_1",
            instance="one",
            client_id="org_1:sac_1",
            client_secret="secret",
            working_directory=str(self.directory),
            temp_directory=str(self.directory / ".temp"),
            executor_entry="tests.runner.scripted_executor_process:run",
        )
        return msgspec.structs.replace(config, **changes)

    async def start(self, *, one_job: OneJobSettings | None = None, **changes: Any) -> RunnerProcess:
        config = self.config(**changes)
        descriptor = handover.offer(config, one_job=one_job)
        output = self.directory.parent / f"runner-{len(self._runners)}.log"
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *handover.command(descriptor),
                pass_fds=[descriptor, *self.inherited],
                stdout=file,
                stderr=file,
                env=environment.for_zygote({**os.environ, **self.environment}, is_built_in=config.is_built_in),
            )
        os.close(descriptor)
        self._runners.append(RunnerProcess(process, output))
        return self._runners[-1]

    async def connected(self, **changes: Any) -> tuple[RunnerProcess, Peer]:
        """Start a runner; it, and its connection to the server."""
        return await self.start(**changes), await self.hub.peer()

    def directory_of_attempt(self) -> Path:
        """The directory of a grant, as a runner that died left it."""
        self.attempts.mkdir()
        return directories.create(self.attempts, granted(), self.hub.url)

    async def settle(self, peer: Peer, attempt: int = 1) -> None:
        """Tell the runner that the attempt is settled, and wait until it has removed the directory."""
        await peer.send(Settled("job_1", attempt))
        await until_gone(self.attempts / f"job_1.{attempt}")

    async def grant(self, peer: Peer, job: str = "job_1", attempt: int = 1) -> ScriptedExecutor:
        """Grant a job; the executor that appears."""
        await peer.send(granted(job, attempt))
        return await self.executors.next()

    async def close(self) -> None:
        for runner in self._runners:
            await runner.kill()


@pytest.fixture
async def runners(hub: FakeRunnerHub, executors: ScriptedExecutors, tmp_path: Path) -> AsyncIterator[Runners]:
    made = Runners(hub, executors, tmp_path / "work")
    made.directory.mkdir()
    yield made
    await made.close()


def granted(job: str = "job_1", attempt: int = 1) -> Granted:
    spec = JobSpec(
        job_id=job,
        attempt=attempt,
        number=1,
        type=JobType.PLAN,
        organization_id="org_1",
        module_id="mod_1",
        module_path="a/m",
        group_path="a",
        engine="tofu",
        source=LocalSource("/src"),
        inputs={},
        environment={},
        backend="terracrew",
        state=StateSeed(0),
    )
    return Granted(spec, Credentials(hub="hub-credential", api="api-credential", state_key=b"k" * 32))


async def until_gone(path: Path) -> None:
    """Wait until a directory has been removed."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while path.exists():
            await asyncio.sleep(0.01)


async def until_reported(peer: Peer, *pairs: tuple[str, int]) -> None:
    """Wait for a heartbeat that names exactly these attempts. One that was sent before the grant arrived names none."""
    while (await peer.receive(Heartbeat)).attempts != refs(*pairs):
        pass


def refs(*pairs: tuple[str, int]) -> list[AttemptRef]:
    return [AttemptRef(*pair) for pair in pairs]


TERM, INT = signal.SIGTERM, signal.SIGINT
