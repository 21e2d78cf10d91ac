"""The steps before the engine's first command: they find the engine, get the source and the state, and write the inputs."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from terracrew.attempt import directories, encryption, files
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.executor.engines import contract, engine_user
from terracrew.executor.engines.contract import (
    ApiAccess,
    Engine,
    EngineContext,
    StateAccess,
)
from terracrew.executor.isolation.source_rules import SourceConfinement
from terracrew.executor.saved_plan import save
from terracrew.executor.sources import fetch as sources
from terracrew.executor.sources import workspace
from terracrew.executor.sources.contract import FetchContext
from terracrew.executor.state import leftover
from terracrew.executor.state.state_file import StateFile
from terracrew.executor.steps import engine_choice, environment, extra_files, hook_plan
from terracrew.executor.steps.context import Prepared, StepContext
from terracrew.masking import names
from terracrew.protocol.events import EngineUsed, SourceResolved
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import ArchiveSource, Resume, Step
from terracrew.source_rules import configurations
from terracrew.toolchains.discovery import FoundEngine

_UNNECESSARY_WITH_A_PLAN = frozenset(step for step in Step if step.phase == "plan") - {Step.FETCH}


async def fetch(context: StepContext) -> None:
    """Find the engine, and get the source (or a saved plan with its workspace) and the current state."""
    spec = context.spec
    context.files.make()
    engine = contract.engine_named(spec.engine)
    found = await engine_choice.choose(context, engine)
    if not context.isolation.has_view:
        engine_user.require_reachable(found.path)
    context.recorder.fact(EngineUsed(found.name, found.version))
    if spec.resume is None or not await _restore(context, engine, found, spec.resume):
        await _fetch_source(context, engine, found)
    if spec.state.content is None and spec.state.size:
        await fetch_state(context)
    else:
        context.states.current = spec.state.content or None
        forget_destroyed(context)
    context.states.mask_outputs()


async def fetch_state(context: StepContext) -> None:
    """Get the state that is current now."""
    answer = await context.transfer.get("state")
    is_ours = (
        context.spec.backend == "terracrew"
    )  # otherwise this is one from before the module got a backend of its own
    context.states.current = (answer.body or None) if is_ours else None
    forget_destroyed(context)
    context.state_version = int(answer.headers["X-State-Version"])


def place_state(context: StepContext) -> None:
    """Write the current state to the file in which the engine keeps it, if it does that."""
    content = state_to_place(context)
    if context.prepared.state_file and content is not None:
        context.prepared.session.place_state(content)
        context.prepared.state_file.placed(content)


def state_to_place(context: StepContext) -> bytes | None:
    """Return what the file with the state contains before a command; None for an engine that has no such file."""
    if context.prepared.state_file is None:
        return None
    return context.states.current or context.prepared.session.initial_state()


def write_inputs(context: StepContext) -> None:
    for path in extra_files.write(context.prepared.folder, context.spec.files, [context.prepared.session.leftover]):
        context.recorder.say(f"The extra file {path} replaces the one of the source")
    inputs, session = _inputs(context), context.prepared.session
    is_ours = context.spec.backend == "terracrew"
    secret = secret_inputs(inputs, context.spec.secrets) if is_ours and session.encrypts_inputs else {}
    others = {name: value for name, value in inputs.items() if name not in secret}
    session.prepare(others, has_our_backend=is_ours)
    context.inputs = inputs
    _set_environment(context)
    if secret:
        session.encrypt_inputs(secret, context.env)


def secret_inputs(inputs: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, Any]:
    """Return the inputs that are secret by their names, or have one of these values in them."""

    def is_secret(name: str, value: Any) -> bool:
        if names.is_secret(name) or names.secrets_of({name: value}):
            return True
        return any(secret and secret in text for text in _texts(value) for secret in secrets)

    return {name: value for name, value in inputs.items() if is_secret(name, value)}


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value, as they are: in JSON, a secret of several lines would look different."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            found = cast("dict[str, Any]", each)
            left += [*found, *found.values()]
        elif isinstance(each, list):
            left += cast("list[Any]", each)
        else:
            yield str(each)


def _inputs(context: StepContext) -> dict[str, Any]:
    """Return the inputs without those of groups that the source does not declare, which an engine would warn of."""
    spec, session = context.spec, context.prepared.session
    inputs = spec.inputs | {
        each.name: environment.defined_value(each, spec, context.prepared.resolved)
        for each in spec.definitions
        if each.target == "variable"
    }
    if not spec.inherited or (declared := session.declared_inputs()) is None:
        return inputs
    unknown = set(spec.inherited) - set(declared)
    return {name: value for name, value in inputs.items() if name not in unknown}


async def _fetch_source(context: StepContext, engine: Engine, found: FoundEngine) -> None:
    spec, start = context.spec, context.start
    name = directories.directory_name(AttemptRef(spec.job_id, spec.attempt))
    if (context.directory / files.WORKSPACE).is_symlink():  # an earlier try of this step has failed
        workspace.release(context.directory)
    place = workspace.claim(Path(start.workspaces), name, context.directory)
    able = FetchContext(
        cache=Path(start.cache_directory),
        roots=start.source_roots,
        transfer=context.transfer,
        archive=spec.archive,
        environment=start.environment,
        owner=spec.organization_id,
        variables=spec.environment,
        own_tokens=dict.fromkeys(environment.server_hosts(start), context.granted.credentials.api),
        scratch=context.directory,
        digest=spec.source_digest,
        revision=spec.source_revision,
        known_revisions=spec.known_revisions,
        control=context.control,
        confinement=(confinement := SourceConfinement(start.isolation, start.environment)),
        say=context.recorder.say,
    )
    try:
        folder, resolved = await sources.fetch(spec, place, able)
    finally:
        confinement.close()
    context.recorder.fact(resolved)
    context.recorder.say(f"Source: {resolved.description}")
    patterns = engine.configuration_patterns
    if not any(configurations.is_match(each.name, patterns) for each in os.scandir(folder)):
        raise Invalid(configurations.missing(spec.source.subdirectory, spec.engine, patterns))
    _open_session(context, engine, found, folder, resolved)
    _remove_leftover(context)


async def _restore(context: StepContext, engine: Engine, found: FoundEngine, resume: Resume) -> bool:
    """Continue with an approved plan. Returns False if that is not possible: then the job is planned again."""
    spec = context.spec
    is_chosen = resume.made_job_id != spec.job_id
    name = "plan that an earlier job made" if is_chosen else f"plan of attempt {resume.attempt}"
    try:
        if resume.state_version != spec.state.version:
            raise Conflict("the state has changed since")
        place = await save.restore(
            found,
            context.files.plan,
            resume,
            root=Path(context.start.workspaces),
            directory=context.directory,
            transfer=context.transfer,
            confinement=SourceConfinement(context.start.isolation, context.start.environment),
        )
    except (TerracrewError, OSError) as error:
        if context.has_stopped(error):
            raise
        context.recorder.say(f"The {name} cannot be used here, so it is made again: {error}")
        return False
    context.recorder.say(f"Going on with the {name}, which was approved")
    folder = sources.folder_in(place, spec.source, spec.source_digest)
    resolved = SourceResolved(spec.source_digest, "", spec.source_commit, spec.source_revision)
    _open_session(context, engine, found, folder, resolved)
    _remove_leftover(context)
    _set_environment(context)
    context.plan.attempt, context.plan.sha256 = resume.attempt, resume.plan_sha256
    hook_plan.accept(context)
    is_ready = context.prepared.session.is_ready()
    context.reused = _UNNECESSARY_WITH_A_PLAN if is_ready else _UNNECESSARY_WITH_A_PLAN - {Step.INIT}
    return True


def _open_session(
    context: StepContext, engine: Engine, found: FoundEngine, folder: Path, resolved: SourceResolved
) -> None:
    start = context.start
    session = engine.open(
        found,
        EngineContext(
            folder,
            context.files,
            Path(start.cache_directory),
            start.environment,
            context.spec.environment,
            workspace.of(context.directory),
            context.memory_mb,
            environment.server_hosts(start),
            context.spec.has_own_source and isinstance(context.spec.source, ArchiveSource),
            environment.state_paths(context.spec),
        ),
    )
    path = session.state_file if context.spec.backend == "terracrew" else None
    file = StateFile(path, context.files.produced) if path is not None else None
    context.prepared = Prepared(engine, found, session, folder, resolved, file)


def _remove_leftover(context: StepContext) -> None:
    """Remove a file of the source in whose place the engine would leave a state that it cannot save."""
    session = context.prepared.session
    if leftover.remove(session.leftover, leftover.place_of(session.leftover, context.directory, context.files)):
        context.recorder.say(
            f"The source has a file {session.leftover.name}, a state that some engine could not save; it is not used"
        )


def _set_environment(context: StepContext) -> None:
    credentials = context.granted.credentials
    api = ApiAccess(context.start.server_url, credentials.api)
    base = environment.of_job(context.start, context.granted, context.prepared.resolved)
    env = context.prepared.session.environment(base, api)
    if context.spec.backend == "terracrew":
        secret = encryption.backend_secret(credentials.hub)
        access = StateAccess(context.backend.url, encryption.BACKEND_USER, secret, credentials.module_key)
        env = context.prepared.session.state_environment(env, access)
    context.env = env
    given = environment.names_given(context.spec)
    context.added_env = {name: text for name, text in env.items() if name not in given and base.get(name) != text}


_MAX_NAMED = 5


def forget_destroyed(context: StepContext) -> None:
    """Take what the earlier attempt destroyed out of the state that the engine reads, where it created something in its place."""
    state, session = context.states.current, context.prepared.session
    destroyed = {each.address: each.destroyed_id for each in context.spec.imports if each.destroyed_id}
    if state and destroyed:
        context.states.current = session.without_destroyed(state, destroyed)


def import_hint(context: StepContext, step: Step, printed: str) -> str:
    """Return which resources a failed plan could not import and how to leave them out; '' if that is not why it failed."""
    spec, session = context.spec, context.prepared.session
    if step is not Step.PLAN or not spec.imports:
        return ""
    refused = session.refused_imports(printed, [each.address for each in spec.imports])
    if not refused:
        return ""
    options = " ".join(f"--leave-out {shlex.quote(each)}" for each in refused[:_MAX_NAMED])
    more = f" and {len(refused) - _MAX_NAMED} more" if len(refused) > _MAX_NAMED else ""
    return (
        f"{', '.join(refused[:_MAX_NAMED])}{more} could not be imported. To plan without: "
        f"terracrew job run {shlex.quote(spec.module_path)} --apply --import-lost {options}{more}"
    )
