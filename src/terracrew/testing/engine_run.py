"""Runs the commands of an engine as an executor does: in a process group of their own, with their output in a file."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor.engines import error_summary, plan_file
from terracrew.executor.engines.contract import (
    ApiAccess,
    Engine,
    EngineSession,
)
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.state.state_file import StateFile
from terracrew.plan_diff import document
from terracrew.plan_diff.document import DiffDocument
from terracrew.protocol.events import PlanSummary
from terracrew.protocol.spec import Step
from terracrew.testing.state_backend import FakeStateBackend

_MAX_COMMAND_SECONDS = 120.0


class EndedCommand(NamedTuple):
    code: int
    printed: str
    """Everything that it printed, without colours."""


class StartedCommand:
    def __init__(
        self, process: EngineProcess, output: Path, followed: AbstractAsyncContextManager[None] | None = None
    ) -> None:
        self.process, self._output, self._followed = process, output, followed

    async def ended(self) -> EndedCommand:
        async with asyncio.timeout(_MAX_COMMAND_SECONDS), self._followed or contextlib.nullcontext():
            code = await self.process.wait()
        return EndedCommand(code, error_summary.tail(self._output, 0))


class EngineRun:
    """The commands of one session, in the folder of its module."""

    def __init__(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        *,
        is_prepared: bool = False,
        own_environment: Mapping[str, str] | None = None,
    ) -> None:
        """`is_prepared` says that an earlier run has prepared the folder, as for a workspace that is used again. With
        `own_environment`, the module has a backend of its own, which these variables select, and `backend` is not used."""
        has_our_backend = own_environment is None
        self._engine, self._session, self._folder, self._backend = engine, session, folder, backend
        file = session.state_file if has_our_backend else None
        self._state_file = StateFile(file, file.parent) if file is not None else None
        if not is_prepared:
            session.prepare({}, has_our_backend=has_our_backend)
        base = {**os.environ, **(own_environment or {})}
        environment = session.environment(base, ApiAccess("http://127.0.0.1", "none"))
        self._environment = session.state_environment(environment, backend.access) if has_our_backend else environment

    def start(self, step: Step, *, is_destroying: bool = False) -> StartedCommand:
        self._session.before(step)
        output = self._folder.parent / f"output-{step}"
        with output.open("wb") as file:
            process = self._process(self._session.arguments(step, is_destroying=is_destroying), file.fileno())
        followed = self._state_file and step.is_mutating and self._state_file.followed(self._backend.write)
        return StartedCommand(process, output, followed or None)

    def _process(self, arguments: Sequence[str], output: int, stdout: int | None = None) -> EngineProcess:
        if self._state_file:
            content = self._backend.states[-1] if self._backend.states else self._session.initial_state()
            self._session.place_state(content)
            self._state_file.placed(content)
        return EngineProcess(arguments, cwd=self._folder, env=self._environment, output=output, stdout=stdout)

    async def summary(self, state: bytes | None) -> PlanSummary:
        """Return what the plan that was just made would do."""
        arguments = self._session.facts_arguments()
        facts = await self._printed(arguments) if arguments else None
        return self._session.summarize(facts, state)

    async def diff(self) -> DiffDocument | None:
        """Return the diff of the plan that was just made; None if the engine does not describe its plans."""
        if not self._session.describes_plans:
            return None
        arguments = self._session.description_arguments()
        printed = await self._printed(arguments) if arguments else b""
        return DiffDocument(document.build(self._session.describe(printed), lambda text: text))

    async def plan_json(self) -> bytes | None:
        """Return the plan that was just made as hooks read it; None if they cannot."""
        if not self._session.has_plan_json:
            return None
        arguments = self._session.description_arguments()
        return self._session.plan_json(await self._printed(arguments) if arguments else b"", str)

    async def _printed(self, arguments: Sequence[str]) -> bytes:
        output = self._folder.parent / "output-facts"
        with output.open("wb") as file, tempfile.TemporaryFile() as stdout:
            ended = await StartedCommand(self._process(arguments, file.fileno(), stdout.fileno()), output).ended()
            assert ended.code == 0, ended.printed
            stdout.seek(0)
            return stdout.read()

    async def succeed(self, *steps: Step, is_destroying: bool = False) -> str:
        """Run these steps, except those that the engine does not have. Returns what the last command printed."""
        printed = ""
        for step in steps:
            if step in self._engine.steps:
                code, printed = await self.start(step, is_destroying=is_destroying).ended()
                assert code == 0, f"{step} ended with {code}: {printed}"
                self._session.after(step)
                if step is Step.PLAN:  # as an executor does: the commands that follow read it where they cannot write
                    plan_file.take(EngineDirectory(self._folder.parent / "engine"))
        return printed


async def opened(pipe: Path) -> int:
    """Wait until the engine reads from a named pipe. Returns the end that the test writes to, which keeps the engine there."""
    async with asyncio.timeout(_MAX_COMMAND_SECONDS):
        while True:
            with contextlib.suppress(OSError):  # nobody has opened it for reading yet
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            await asyncio.sleep(0.02)
