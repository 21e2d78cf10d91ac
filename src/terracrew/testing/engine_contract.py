"""The contract of an engine as tests: inherit `EngineContract` in a pytest file, and set what it asks for.

The suite runs the real program, with a state file of its own in the workspace.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Invalid
from terracrew.executor.engines import registry
from terracrew.executor.engines.contract import ApiAccess, Engine, EngineContext, EngineSession
from terracrew.protocol.spec import Step


class EngineContract:
    name: ClassVar[str]
    """The name under which the engine is registered."""
    source: ClassVar[Mapping[str, str]]
    """The files of a module that creates one resource and has one output, `answer`, with the value "42"."""
    state_file: ClassVar[str]
    """Where the engine writes its state if it is not given a backend."""

    @pytest.fixture
    def engine(self) -> Engine:
        return registry.get(self.name)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "workspace"
        folder.mkdir()
        for name, text in self.source.items():
            (folder / name).write_text(text)
        return folder

    @pytest.fixture
    def session(self, engine: Engine, folder: Path, tmp_path: Path) -> EngineSession:
        files = EngineDirectory(tmp_path / "engine")
        files.make()
        context = EngineContext(folder, files, tmp_path / "cache", {})
        return engine.open(engine.find([]), context)

    def test_an_engine_has_its_name_and_the_steps_that_every_job_needs(self, engine: Engine) -> None:
        assert engine.name == self.name
        assert {Step.FETCH, Step.INPUTS, Step.PLAN, Step.APPLY, Step.DESTROY} <= engine.steps

    def test_steps_of_the_executor_have_no_command(self, session: EngineSession) -> None:
        for step in (Step.FETCH, Step.INPUTS):
            with pytest.raises(ValueError, match=step.value):
                session.arguments(step, is_destroying=False)

    def test_content_that_is_not_a_state_is_refused(self, engine: Engine) -> None:
        for content in (b"", b"not a state", b"[]"):
            with pytest.raises(Invalid):
                engine.identify_state(content)

    def test_a_leftover_state_is_inside_the_workspace(self, session: EngineSession, folder: Path) -> None:
        assert session.leftover.is_relative_to(folder)

    def test_output_that_says_nothing_explains_nothing(self, session: EngineSession) -> None:
        details = session.failure_details("a line\n")
        assert (details.error, details.memory_error) == ("", "")
        assert not session.has_heard_interrupt("a line\n")

    def test_a_module_is_planned_applied_and_destroyed(
        self, engine: Engine, session: EngineSession, folder: Path
    ) -> None:
        session.prepare({}, has_our_backend=False)
        env = session.environment(os.environ, ApiAccess("http://127.0.0.1", "none"))

        def run(step: Step, *, is_destroying: bool = False) -> bytes:
            if step not in engine.steps:
                return b""
            session.before(step)
            command = session.arguments(step, is_destroying=is_destroying)
            ended = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            assert ended.returncode == 0, ended.stdout.decode(errors="replace")
            session.after(step)
            return ended.stdout

        for step in (Step.INIT, Step.VALIDATE, Step.PLAN):
            run(step)
        assert session.summarize(None).add == 1
        assert session.is_ready()
        printed = run(Step.APPLY).decode()
        assert session.has_ended_in_order(0, printed)
        assert session.outputs(run(Step.OUTPUT)).outputs["answer"].value == "42"
        state = (folder / self.state_file).read_bytes()
        identity = engine.identify_state(state)
        assert identity.resources in (1, None)
        emptied = engine.identify_state(engine.emptied_state(state))
        assert emptied.lineage == identity.lineage
        assert emptied.serial > identity.serial
        run(Step.PLAN, is_destroying=True)
        assert session.summarize(state).destroy == 1
        run(Step.DESTROY)
        destroyed = engine.identify_state((folder / self.state_file).read_bytes())
        assert destroyed.lineage == identity.lineage
        assert destroyed.serial > identity.serial
