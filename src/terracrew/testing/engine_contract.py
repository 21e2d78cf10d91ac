"""The contract of an engine as tests: inherit `EngineContract` in a pytest file, and set what it asks for.

The suite runs the real program with a state backend like that of an executor. Some tests are coroutines: run them with
pytest-asyncio and `asyncio_mode = "auto"`.
"""

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from terracrew import plugins
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Invalid
from terracrew.executor.control import StopMode
from terracrew.executor.engines import contract, error_summary
from terracrew.executor.engines.contract import Engine, EngineContext, EngineSession, StateIdentity
from terracrew.executor.state import leftover
from terracrew.plan_diff.document import DiffDocument, DiffQuery
from terracrew.protocol.events import PlanSummary
from terracrew.protocol.spec import Step
from terracrew.source_rules import configurations
from terracrew.testing import engine_run, state_backend
from terracrew.testing.engine_run import EndedCommand, EngineRun
from terracrew.testing.state_backend import FakeStateBackend
from terracrew.toolchains.discovery import FoundEngine

_PREPARE = (Step.INIT, Step.VALIDATE, Step.PLAN)
_COUNTS = ("add", "change", "destroy", "replace", "imports", "moves", "forgets")
SECRET_VALUE = "a value that nobody may read"  # noqa: S105  (not a password)


class EngineContract:
    name: ClassVar[str]
    """The name under which the engine is registered."""
    source: ClassVar[Mapping[str, str]]
    """The files of a module that creates one resource and has one output, `answer`, with the value "42"."""
    before_source: ClassVar[Mapping[str, str]]
    """The files of a module with an output `answer` of the value "42", and with resources that `changed_source` changes."""
    changed_source: ClassVar[Mapping[str, str]]
    """The same files after a change of resources and outputs. All three sources have files of the same names."""
    changed_counts: ClassVar[Mapping[str, int]]
    """The counts of `PlanSummary` in the plan of `changed_source` after `before_source` was applied; those left out are 0."""
    changed_outputs: ClassVar[Mapping[str, str]] = {}
    """The changes of outputs in that plan: output name → create, update or delete."""
    secret_source: ClassVar[Mapping[str, str] | None] = None
    """The files of a module with an output `secret` that the engine knows to be sensitive, with the value `SECRET_VALUE`.
    None for an engine without sensitive outputs."""
    invalid_source: ClassVar[Mapping[str, str]]
    """The files of a module that the engine refuses before it makes a plan."""
    invalid_reason: ClassVar[str]
    """A part of the error with which it refuses `invalid_source`."""
    failing_source: ClassVar[Mapping[str, str]]
    """The files of a module whose plan succeeds and whose apply fails after it has created a resource."""
    failing_reason: ClassVar[str]
    """A part of the error that the apply of `failing_source` ends with."""

    def held_source(self, pipe: Path) -> Mapping[str, str]:
        """Return the files of a module whose apply creates a resource, and then opens this named pipe and reads a line."""
        raise NotImplementedError

    def own_backend(self, folder: Path) -> Mapping[str, str] | None:  # noqa: ARG002  (most engines need no folder)
        """Make a backend of the module's own, which locks its state, in this folder that does not exist yet. Returns the
        environment variables that select it; None for an engine without locks."""
        return None

    @pytest.fixture
    def engine(self) -> Engine:
        return contract.engine_named(self.name)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "workspace"
        folder.mkdir()
        return folder

    @pytest.fixture
    def backend(self) -> Iterator[FakeStateBackend]:
        with state_backend.serving() as backend:
            yield backend

    @pytest.fixture
    def program(self, engine: Engine) -> FoundEngine:
        """The program that the suite runs. A suite for one version overrides this fixture."""
        return engine.find([])

    @pytest.fixture
    def session(self, engine: Engine, program: FoundEngine, folder: Path, tmp_path: Path) -> EngineSession:
        files = EngineDirectory(tmp_path / "engine")
        files.make()
        return engine.open(program, EngineContext(folder, files, tmp_path / "cache", {}))

    # ---- what it declares

    def test_an_engine_has_its_name_and_the_steps_that_every_job_needs(self, engine: Engine) -> None:
        assert engine.name == self.name
        assert plugins.is_name(engine.name)
        assert {Step.FETCH, Step.INPUTS, Step.PLAN, Step.APPLY, Step.DESTROY} <= engine.steps

    def test_the_module_has_a_configuration_file_and_an_empty_folder_has_none(self, engine: Engine) -> None:
        patterns = engine.configuration_patterns
        assert any(configurations.is_match(name, patterns) for name in self.source)
        assert not configurations.is_match("README", patterns)

    def test_steps_of_the_executor_have_no_command(self, session: EngineSession) -> None:
        for step in (Step.FETCH, Step.INPUTS):
            with pytest.raises(ValueError, match=step.value):
                session.arguments(step, is_destroying=False)

    def test_content_that_is_not_a_state_is_refused(self, engine: Engine) -> None:
        for content in (b"", b"not a state", b"[]", b"null"):
            with pytest.raises(Invalid):
                engine.identify_state(content)

    def test_its_paths_are_absolute_and_a_leftover_state_is_inside_the_workspace(
        self, session: EngineSession, folder: Path
    ) -> None:
        _write(folder, self.source)
        assert any(session.leftover.is_relative_to(place) for place in (folder, folder.parent / "engine" / "produced"))
        assert all(path.is_absolute() for path in session.readable_paths)
        assert all(os.path.isabs(path) for path in session.operator_paths)

    def test_output_that_says_nothing_explains_nothing(self, session: EngineSession) -> None:
        details = session.failure_details("a line\n")
        assert (details.error, details.memory_error, details.held_lock) == ("", "", "")
        assert not session.has_received_interrupt("a line\n")

    # ---- what it does

    async def test_a_module_is_planned_applied_and_destroyed(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        _write(folder, self.source)
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(*_PREPARE)
        assert (await run.summary(None)).add == 1
        assert session.is_ready()
        assert backend.states == [], "only a mutating step writes a state"
        printed = await run.succeed(Step.APPLY)
        assert session.has_ended_in_order(0, printed)
        assert session.outputs((await run.succeed(Step.OUTPUT)).encode()).outputs["answer"].value == "42"
        identity = _one_history(engine, backend)
        assert identity.resources in (1, None)
        emptied = engine.identify_state(engine.emptied_state(backend.states[-1]))
        assert emptied.lineage == identity.lineage
        assert emptied.serial > identity.serial
        await run.succeed(Step.PLAN, is_destroying=True)
        assert (await run.summary(backend.states[-1])).destroy == 1
        await run.succeed(Step.DESTROY)
        destroyed = _one_history(engine, backend)
        assert destroyed.serial > identity.serial
        assert destroyed.resources in (0, None)

    async def test_a_plan_says_how_much_it_would_change(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        _write(folder, self.before_source)
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(*_PREPARE, Step.APPLY)
        _write(folder, self.changed_source)
        await run.succeed(Step.PLAN)
        summary = await run.summary(backend.states[-1])
        assert _counts(summary) == {name: self.changed_counts.get(name, 0) for name in _COUNTS}
        assert summary.outputs == self.changed_outputs
        assert _counts(await run.summary(None)) == _counts(summary)
        if diff := await run.diff():
            _same_counts(diff, summary)

    async def test_a_saved_plan_is_applied_as_it_was_planned_or_not_at_all(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        """A person approves a plan. What the source has become since then must not be applied in its place."""
        _write(folder, self.source)
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(*_PREPARE)
        _write(folder, self.changed_source)
        code, printed = await run.start(Step.APPLY).ended()
        if code == 0:
            assert session.outputs((await run.succeed(Step.OUTPUT)).encode()).outputs["answer"].value == "42", printed
            _write(folder, self.source)
            await run.succeed(Step.PLAN)
            assert _counts(await run.summary(backend.states[-1])) == dict.fromkeys(_COUNTS, 0)
        else:
            assert session.has_ended_in_order(code, printed)
            assert all(engine.identify_state(state).resources in (0, None) for state in backend.states)

    async def test_a_sensitive_output_is_marked_and_printed_only_where_it_is_asked_for(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        if self.secret_source is None:
            pytest.skip(f"{self.name} has no sensitive outputs")
        _write(folder, self.secret_source)
        run = EngineRun(engine, session, folder, backend)
        for step in (*_PREPARE, Step.APPLY):
            assert SECRET_VALUE not in await run.succeed(step)
            if step is Step.PLAN and (read_by_hooks := await run.plan_json()):
                assert SECRET_VALUE.encode() not in read_by_hooks
                assert isinstance(msgspec.json.decode(read_by_hooks), dict)
        found = session.outputs((await run.succeed(Step.OUTPUT)).encode()).outputs["secret"]
        assert (found.value, found.is_sensitive) == (SECRET_VALUE, True)

    async def test_a_module_that_is_wrong_is_refused_before_a_plan_is_made(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        _write(folder, self.invalid_source)
        run = EngineRun(engine, session, folder, backend)
        for step in (step for step in _PREPARE if step in engine.steps):
            code, printed = await run.start(step).ended()
            if code:
                assert self.invalid_reason in session.failure_details(printed).error
                assert backend.states == []
                return
        pytest.fail("every step before the apply accepted it")

    async def test_an_apply_that_fails_says_why_and_has_saved_what_it_made(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        _write(folder, self.failing_source)
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(*_PREPARE)
        code, printed = await run.start(Step.APPLY).ended()
        assert code != 0
        assert session.has_ended_in_order(code, printed)
        reason = error_summary.failure(code, session.failure_details(printed), 0).text
        assert self.failing_reason in reason
        assert "\n" not in reason
        assert not session.has_received_interrupt(printed)
        assert _one_history(engine, backend).resources != 0

    async def test_an_interrupted_apply_says_so_and_saves_what_it_made(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        code, printed = await self._held(engine, session, folder, backend, "interrupt")
        assert code > 0, "the engine ends by itself"
        assert session.has_received_interrupt(printed)
        assert session.has_ended_in_order(code, printed)
        if session.state_file is None:
            assert leftover.find(session.leftover, folder) is None, "its backend has taken everything"
        assert _one_history(engine, backend).resources != 0

    async def test_a_killed_apply_is_not_in_order_and_the_next_one_can_go_on(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        code, printed = await self._held(engine, session, folder, backend, "kill")
        assert code == -9
        assert not session.has_ended_in_order(code, printed)
        assert error_summary.failure(code, session.failure_details(printed), 0)
        if left := leftover.find(session.leftover, folder.parent):
            engine.identify_state(left.read_bytes())
        if backend.states:
            _one_history(engine, backend)
        ended = await EngineRun(engine, session, folder, backend, is_prepared=True).start(Step.PLAN).ended()
        assert ended.code == 0, ended.printed

    async def test_a_state_that_the_backend_refuses_is_left_where_the_engine_declares_it(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        _write(folder, self.source)
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(*_PREPARE)
        backend.is_refusing = True
        code, printed = await run.start(Step.APPLY).ended()
        assert code != 0 or session.state_file is not None, "who writes to a file does not notice it"
        assert session.has_ended_in_order(code, printed), "what it made is in the file that it left"
        left = leftover.find(session.leftover, folder.parent)
        assert left is not None, printed
        assert engine.identify_state(left.read_bytes()).resources in (1, None)

    async def test_a_lock_that_another_run_holds_is_a_failure_of_its_own_and_names_the_holder(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        own = self.own_backend(folder.parent / "own")
        if own is None:
            pytest.skip(f"{self.name} has no locks")
        pipe = folder.parent / "pipe"
        os.mkfifo(pipe)
        _write(folder, self.held_source(pipe))
        run = EngineRun(engine, session, folder, backend, own_environment=own)
        await run.succeed(*_PREPARE)
        holder = run.start(Step.APPLY)
        end = await engine_run.opened(pipe)
        try:
            code, printed = await run.start(Step.DESTROY).ended()
        finally:
            os.write(end, b"\n")
            os.close(end)
            held = await holder.ended()
        assert code != 0
        failure = error_summary.failure(code, session.failure_details(printed), 0, printed)
        assert failure.failure_kind == "state_locked", printed
        assert "the state is locked by " in failure.text
        assert f"@{socket.gethostname()}" in failure.text
        assert held.code == 0, f"the holder is not disturbed: {held.printed}"

    async def _held(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        mode: StopMode,
    ) -> EndedCommand:
        """Stop an apply in the middle of its change. Returns how it ended."""
        pipe = folder.parent / "pipe"
        os.mkfifo(pipe)
        _write(folder, self.held_source(pipe))
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(*_PREPARE)
        command = run.start(Step.APPLY)
        end = await engine_run.opened(pipe)
        try:
            waiting = asyncio.create_task(command.ended())
            await asyncio.sleep(0)
            command.process.stop(mode)
            return await waiting
        finally:
            os.close(end)


def _same_counts(diff: DiffDocument, summary: PlanSummary) -> None:
    """The diff of a plan names as many resources and outputs as its summary counts."""
    actions = {"create": summary.add, "update": summary.change, "delete": summary.destroy, "replace": summary.replace}
    assert {action: diff.head.counts.get(action, 0) for action in actions} == actions
    found = diff.page(DiffQuery(count=1_000)).resources
    assert sorted((each.address, each.action) for each in found) == sorted(
        (each.address, each.action) for each in summary.resources
    )
    assert {each.name: each.action for each in diff.head.outputs} == summary.outputs


def _counts(summary: PlanSummary) -> dict[str, int]:
    return {name: getattr(summary, name) for name in _COUNTS}


def _write(folder: Path, source: Mapping[str, str]) -> None:
    for name, text in source.items():
        (folder / name).write_text(text)


def _one_history(engine: Engine, backend: FakeStateBackend) -> StateIdentity:
    """Check that the saved states belong together and grow. Returns the identity of the last one."""
    identities = [engine.identify_state(state) for state in backend.states]
    assert len({each.lineage for each in identities}) == 1
    serials = [each.serial for each in identities]
    assert serials == sorted(set(serials))
    return identities[-1]
