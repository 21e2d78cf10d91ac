"""Makes the workspace of a job warm: uses what the `init` of an earlier job of the module made, if nothing that it reads has changed.

What is kept is read right after `init`, before anything of the module runs. So what the rest of a job does to its workspace
never reaches a later job.
"""

import logging
import os
import time
from collections.abc import Iterator

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.contract import EngineSession
from terracrew.executor.sources import workspace
from terracrew.executor.steps import environment
from terracrew.executor.steps.context import StepContext
from terracrew.executor.warm.cache import KeptInit, WarmCache
from terracrew.protocol.spec import Step

_FORMAT = "1"
"""Changes with everything that makes older entries wrong."""
_PER_ATTEMPT = frozenset({"TMPDIR"})
_PER_ACCOUNT = frozenset({"HOME", "USER", "LOGNAME"})
"""Variables of the runner's environment that differ between attempts and do not change what `init` makes. The configuration files
in the home directory are compared by their content."""
_log = logging.getLogger("terracrew.executor")


def enter(context: StepContext) -> bool:
    """Make the workspace warm before `init` would run. Returns False if `init` has to run."""
    settings, session, spec = context.start.warm, context.prepared.session, context.spec
    if settings is None or not session.keeps_init:
        return False
    if context.plan.attempt is not None or any(each.step == Step.INIT for each in spec.hooks):
        return False
    cache = WarmCache(settings)
    try:
        name = cache.name_of(_read_by_init(context))
        if spec.is_fresh:
            cache.remove(name)
            return False
        context.init_name = name
        entry = cache.get(name)
    except (Invalid, OSError, ValueError, RecursionError) as error:
        _log.info("init runs in every job: %s", error)
        return False
    if entry is None or not _place(session, entry):
        return False
    context.kept_from = entry.number
    context.recorder.say(
        f"The workspace is warm: init is kept from job #{entry.number}, because nothing that it reads has changed"
    )
    return True


def _place(session: EngineSession, entry: KeptInit) -> bool:
    try:
        session.place_init(entry.files)
    except (Invalid, OSError) as error:
        _log.info("init runs, because what was kept cannot be used: %s", error)
        session.remove_init()
        return False
    return True


def keep(context: StepContext) -> None:
    """Keep what `init` has made just now, if a later job can use it."""
    settings, session = context.start.warm, context.prepared.session
    if settings is None or not context.init_name:
        return
    try:
        files = session.made_by_init(has_our_backend=context.spec.backend == "terracrew")
        is_kept = WarmCache(settings).put(context.init_name, KeptInit(context.spec.number, time.time(), files))
    except (Invalid, OSError, ValueError, RecursionError) as error:  # such as a name of a file that is not UTF-8
        context.recorder.say(f"The next job runs init again, too: {error}")
    else:
        _log.info("the workspace is kept" if is_kept else "there is no room to keep the workspace")


def leave(context: StepContext) -> bool:
    """Make the workspace cold, after what `init` made, now or earlier, turned out to be of no use. What the next `init` makes is not
    kept: the module has run something here. Returns False if that is not possible, because of what the module did to its workspace."""
    settings, session = context.start.warm, context.prepared.session
    if settings is not None and context.init_name:
        WarmCache(settings).remove(context.init_name)
    context.kept_from = None
    context.init_name = ""
    try:
        session.remove_init()
    except OSError as error:
        context.recorder.say(f"init cannot run again, because what it made cannot be removed: {error}")
        return False
    return True


def _read_by_init(context: StepContext) -> Iterator[str | bytes]:
    """Yield everything that decides what `init` makes."""
    spec, start = context.spec, context.start
    flags = spec.flags.get(Step.INIT, [])
    place = workspace.of(context.directory)
    inside = str(context.prepared.folder.resolve().relative_to(place.resolve()))
    if inside != str(context.prepared.folder.relative_to(place)):
        raise Invalid("a link leads to the folder of the module")
    yield from (_FORMAT, spec.organization_id, spec.module_id, spec.backend)
    yield from (
        context.prepared.found.name,
        context.prepared.found.version,
        os.path.realpath(context.prepared.found.path),
    )
    yield from (context.prepared.resolved.digest, inside)
    yield _encoded(flags)
    yield _encoded(spec.files)
    yield _encoded(context.inputs)
    passed_over = _PER_ATTEMPT | _PER_ACCOUNT if start.engine_account else _PER_ATTEMPT
    yield _encoded({name: value for name, value in start.environment.items() if name not in passed_over})
    defined = {each.name: environment.defined_text(each, spec, context.prepared.resolved) for each in spec.definitions}
    yield _encoded(spec.environment | defined)
    yield from context.prepared.session.read_by_init(flags, context.env)


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
