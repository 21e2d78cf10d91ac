"""Chooses the program that a job runs with: the version that the server has resolved, which may have to be installed first."""

import os

from terracrew.errors import EngineMissing
from terracrew.executor.engines.contract import Engine
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.steps.context import StepContext
from terracrew.system import own_program
from terracrew.toolchains.discovery import FoundEngine


async def choose(context: StepContext, engine: Engine) -> FoundEngine:
    """Return the program. Raises EngineMissing before anything else runs, if this machine does not have it."""
    paths, wanted = context.start.engine_paths, context.spec.engine_version
    if not wanted:
        return engine.find(paths)
    if found := _find(context, engine):
        return found
    if not context.start.is_engine_installed:
        has = ", ".join(each.version for each in engine.find_all(paths)) or "no version at all"
        raise EngineMissing(
            f"{engine.name} {wanted} is not on this machine, which has {has}. Install it: terracrew engine install "
            f'{engine.name} --version {wanted}, or set engine.install = "on-demand" for the runner',
            engine=engine.name,
        )
    await _install(context, engine.name, wanted)
    if found := _find(context, engine):
        return found
    raise EngineMissing(f"{engine.name} {wanted} was installed, but it does not answer on this machine")


def _find(context: StepContext, engine: Engine) -> FoundEngine | None:
    known = engine.find_all(context.start.engine_paths)
    return next((each for each in known if each.version == context.spec.engine_version), None)


async def _install(context: StepContext, name: str, version: str) -> None:
    """Install the version with our own command, in a process that a cancel can end. What it prints goes to the job's log.

    It runs with the environment of the executor, not with that of the job: a module must not choose where an engine comes from.
    """
    context.recorder.say(f"This runner does not have {name} {version}, so it is installed first")
    command = own_program.command("terracrew.cli", "engine", "install", name, "--version", version)
    process = EngineProcess(
        command,
        cwd=context.directory,
        env=os.environ,
        output=context.output.descriptor,
        stop_delays=context.stop_delays,
        is_ours=True,
    )

    def react() -> None:
        if mode := context.control.stop_mode(is_mutating=False):
            process.stop(mode)

    with context.output.feeding(process), context.control.listening(react):
        code = await process.wait()
    await context.output.drain()
    if code:
        raise EngineMissing(
            f"{name} {version} could not be installed (exit code {code}); the log says why", engine=name
        )
