"""Runs the engine alone: the commands that an executor runs, with the same flags and environment, without Terracrew."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor.engines import contract, plan_file
from terracrew.executor.engines.contract import (
    ApiAccess,
    EngineContext,
    StateAccess,
)
from terracrew.protocol.spec import Step
from terracrew.toolchains import discovery

PLAN = (Step.INIT, Step.PLAN)
"""The steps of a plan. An executor skips the first one if the engine has nothing to do in it, and so does `Bare`."""
APPLY = (*PLAN, Step.APPLY, Step.OUTPUT)
FILE_NAMES = {"pulumi": "Pulumi.yaml"}
"""The file of a module, for engines that do not read `main.tf`."""
_NO_STATE = StateAccess("", "", "", bytes(32))
"""The access to a state that is in a file: only the key is used."""


class Bare:
    """One workspace, made ready before anything is timed."""

    def __init__(self, folder: Path, main: str, environ: Mapping[str, str], engine: str = "tofu") -> None:
        self._place = Path(tempfile.mkdtemp(prefix="bare-", dir=folder))
        self._workspace = self._place / "workspace"
        self._workspace.mkdir()
        (self._workspace / FILE_NAMES.get(engine, "main.tf")).write_text(main)
        found = discovery.require(engine, [])
        self._files = EngineDirectory(self._place / "engine-files")
        self._files.make()
        context = EngineContext(self._workspace, self._files, folder / "cache", {})
        self._engine = contract.engine_named(engine).open(found, context)
        base = {name: value for name, value in environ.items() if not name.startswith("TERRACREW_")}
        self._env = self._engine.environment(base, ApiAccess("http://127.0.0.1", "none"))
        if self._engine.state_file is not None:
            self._engine.prepare({}, has_our_backend=True)
            self._engine.place_state(self._engine.initial_state())
            self._env = self._engine.state_environment(self._env, _NO_STATE)

    def run(self, *steps: Step) -> dict[Step, float]:
        """Return the seconds that each step took. The output goes to a file, as with an executor."""
        seconds: dict[Step, float] = {}
        output = os.open(self._place / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for step in steps:
                if step is Step.INIT and not self._engine.needs_init():
                    continue
                began = time.perf_counter()
                self._command(self._engine.arguments(step, is_destroying=False), output)
                if step is Step.PLAN:
                    plan_file.take(self._files)
                if step is Step.PLAN and self._engine.describes_plans:
                    described = self._engine.description_arguments()
                    if described is not None:
                        self._command(described, output)
                seconds[step] = time.perf_counter() - began
        finally:
            os.close(output)
        return seconds

    def _command(self, arguments: Sequence[str], output: int) -> None:
        subprocess.run(
            arguments,
            cwd=self._workspace,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=True,
        )
