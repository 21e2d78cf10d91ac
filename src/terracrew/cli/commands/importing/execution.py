"""Makes what an import decided: groups, then one module after the other with its inputs, its steps and its state.

A module that gets a state is created with a lock, and unlocked when the state is there, so that no job creates its resources again,
also if the import is interrupted. The next run knows the lock by its id, and continues.
"""

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from terracrew.api.groups import Group, NewGroup
from terracrew.api.inputs import InputView, NewInput
from terracrew.api.locks import MAX_TEXT_CHARACTERS, ModuleLock, TakeLock
from terracrew.api.modules import Module
from terracrew.api.states import State
from terracrew.api.steps import StepSettings
from terracrew.cli.arguments import source as sources
from terracrew.cli.commands import state as state_commands
from terracrew.cli.commands.importing import finding, states
from terracrew.cli.commands.importing.existing import Decisions, GroupDecision, ModuleDecision, state_decision
from terracrew.cli.commands.importing.model import ImportedModule, StateOrigin
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound, TerracrewError, Unauthenticated, Unavailable, Unreachable

if TYPE_CHECKING:
    from terracrew.client.http import Api

_ENDS_ALL = (Unauthenticated, Unavailable, Unreachable)
"""Errors after which the next module would fail, too."""
ReadState = Callable[[StateOrigin], bytes]
"""Reads the state of a module from the source, as it is now, and has checked that it arrived undamaged."""

LockSource = Callable[[ImportedModule], str]
"""Locks what a module comes from, and returns what that did in words."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of a group or a module."""

    path: str
    made: tuple[str, ...] = ()
    """What was made, in words."""
    failures: tuple[str, ...] = ()


class Execution(msgspec.Struct, frozen=True):
    """What became of everything that was to be made."""

    outcomes: tuple[Outcome, ...]
    ended_by: TerracrewError | None = None
    """The error after which nothing more was tried; None if everything was."""

    @property
    def is_failed(self) -> bool:
        return self.ended_by is not None or any(each.failures for each in self.outcomes)


class _PlaceProgress:
    """What was made of a place, and what failed."""

    def __init__(self, path: str) -> None:
        self._path, self.made, self.failures = path, list[str](), list[str]()

    def outcome(self) -> Outcome:
        return Outcome(self._path, tuple(self.made), tuple(self.failures))


def execute(
    api: "Api",
    decisions: Decisions,
    read_state: ReadState,
    *,
    lock_source: LockSource | None,
    report: Callable[[str], None] = lambda _: None,
) -> Execution:
    """Make everything that was decided. What fails is in the outcome of its place, and the others are made.

    `lock_source` is called before the state of a module is read, and for modules that lack nothing, too.
    """
    outcomes: list[Outcome] = []
    groups = [each for each in decisions.groups if each.is_new or each.inputs]
    wanted = ("create", "complete") if lock_source is None else ("create", "complete", "exists")
    modules = [each for each in decisions.modules if each.action in wanted]
    tasks: list[tuple[str, Callable[[_PlaceProgress], None]]] = [
        (each.group.path, functools.partial(_make_group, api, each)) for each in groups
    ]
    tasks += [
        (each.module.path, functools.partial(_make_module, api, each, read_state, lock_source)) for each in modules
    ]
    for number, (path, make) in enumerate(tasks, 1):
        report(f"{number} of {len(tasks)}: {path}")
        done = _PlaceProgress(path)
        try:
            make(done)
        except TerracrewError as error:
            done.failures.append(error.message)
            if isinstance(error, _ENDS_ALL):
                return Execution((*outcomes, done.outcome()), error)
        outcomes.append(done.outcome())
    return Execution(tuple(outcomes))


def _make_group(api: "Api", decision: GroupDecision, done: _PlaceProgress) -> None:
    group = decision.group
    if decision.is_new:
        api.post("/groups?parents=true", NewGroup(path=group.path, description=group.description), Group)
        done.made.append("group")
    _set_inputs(api, decision.inputs, done)


def _make_module(
    api: "Api",
    decision: ModuleDecision,
    read_state: ReadState,
    lock_source: LockSource | None,
    done: _PlaceProgress,
) -> None:
    module = decision.module
    reason = f"the import of {module.origin} is not complete"[:MAX_TEXT_CHARACTERS]
    lock = TakeLock(reason=reason, client_lock_id=finding.lock_id(module)) if decision.needs_lock else None
    inputs = decision.inputs
    if decision.action == "create":
        inputs = _create(api, module, lock, done)
    elif lock is not None:
        api.post(f"/modules/{segment(module.path)}/lock", lock, ModuleLock)
    _set_inputs(api, inputs, done)
    _set_steps(api, decision, done)
    if lock_source is not None:
        done.made.append(lock_source(module))
    if module.state is not None and decision.state.action == "import":
        _bring(api, module, module.state, read_state, done)
    if lock is not None:
        query = urlencode({"id": lock.client_lock_id})
        api.delete(f"/modules/{segment(module.path)}/lock?{query}")


def _create(api: "Api", module: ImportedModule, lock: TakeLock | None, done: _PlaceProgress) -> tuple[NewInput, ...]:
    """Create a module, locked if it waits for a state, and return the inputs that it still lacks.

    It gets its variables in the same request. If one of them is refused, it is created without them: each is then set on its own.
    """
    new = module.new
    if module.archive:
        new = msgspec.structs.replace(new, source=_uploaded(api, module))
    literal = [each for each in module.inputs if each.target != "file" and each.value is not msgspec.UNSET]
    full = msgspec.structs.replace(
        new,
        inputs={each.name: each.value for each in literal if each.target == "variable"},
        environment={each.name: each.value for each in literal if each.target == "environment"},
    )
    rest = tuple(each for each in module.inputs if each not in literal)
    query = {} if lock is None else {"lock_id": lock.client_lock_id, "lock_reason": lock.reason}
    try:
        api.post(f"/modules?{urlencode(query)}", full, Module)
        done.made += ["module", *([f"{len(literal)} inputs"] if literal else [])]
    except Invalid:
        if not literal:
            raise
        api.post(f"/modules?{urlencode(query)}", new, Module)
        done.made.append("module")
        rest = module.inputs
    return rest


def _uploaded(api: "Api", module: ImportedModule) -> sources.Source:
    from terracrew.cli.commands.importing import folders

    return folders.upload(api, module)


def _set_inputs(api: "Api", inputs: Iterable[NewInput], done: _PlaceProgress) -> None:
    count = 0
    for each in inputs:
        try:
            api.post("/inputs", each, InputView)
            count += 1
        except Invalid as error:
            done.failures.append(error.message)
    if count:
        done.made.append(f"{count} inputs")


def _set_steps(api: "Api", decision: ModuleDecision, done: _PlaceProgress) -> None:
    for step, settings in decision.module.steps:
        if step in decision.steps:
            try:
                api.replace(f"/modules/{segment(decision.module.path)}/steps/{step}", settings, StepSettings)
                done.made.append(f"step {step}")
            except Invalid as error:
                done.failures.append(error.message)


def _bring(
    api: "Api", module: ImportedModule, origin: StateOrigin, read_state: ReadState, done: _PlaceProgress
) -> None:
    """Import the state of a module, whose lock this import holds. What is here is read again: a job may have written it."""
    content = read_state(origin)
    head = states.read(content, f"the state of {module.origin}")
    found = finding.module(api, module)
    if found is None:
        raise NotFound(f"module {module.path} was deleted meanwhile")
    decided = state_decision(StateOrigin(origin.reference, head.serial, head.lineage), found.state)
    if decided.action == "import":
        made: State = state_commands.upload(api, module.path, content, force=False)
        done.made.append(f"state with serial {made.serial}")
    elif decided.action == "refused":
        done.failures.append(f"the state was not imported: {decided.reason}")
