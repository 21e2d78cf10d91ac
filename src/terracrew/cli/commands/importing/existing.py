"""Compares what an import is going to make with what is there, so that nothing is made twice and nothing is overwritten."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from terracrew.api.inputs import NewInput
from terracrew.api.modules import Module
from terracrew.api.states import State
from terracrew.cli.commands.importing.model import HandSetInput, ImportedGroup, ImportedModule, ImportPlan, StateOrigin
from terracrew.protocol.spec import Step

GivenInput = TypeVar("GivenInput", NewInput, HandSetInput)
ModuleAction = Literal["create", "complete", "exists", "refused"]
StateAction = Literal["none", "import", "same", "refused"]


class FoundModule(msgspec.Struct, frozen=True):
    """A module that is there, with what an import could have given it."""

    module: Module
    state: State | None = None
    inputs: frozenset[tuple[str, str]] = frozenset()
    """The target and the name of each input that it has itself."""
    steps: frozenset[Step] = frozenset()
    is_locked_by_import: bool = False
    """Whether an import that did not end holds its lock."""
    is_state_imported: bool = True
    """Whether its state is one that was imported, or continues one."""


class Existing(msgspec.Struct, frozen=True):
    """What is there of what an import is going to make."""

    groups: Mapping[str, frozenset[tuple[str, str]]] = {}
    """The groups by their paths, with the targets and names of the inputs that they have themselves."""
    modules: Mapping[str, FoundModule] = {}
    elsewhere: Mapping[str, str] = {}
    """The labels of imports that modules have beside those that the plan names, with the paths of these modules."""


class StateDecision(msgspec.Struct, frozen=True):
    action: StateAction
    reason: str = ""


class GroupDecision(msgspec.Struct, frozen=True):
    group: ImportedGroup
    is_new: bool
    inputs: tuple[NewInput, ...]
    """Those that it does not have yet."""
    by_hand: tuple[HandSetInput, ...]
    """Those that nobody has set yet."""


class ModuleDecision(msgspec.Struct, frozen=True):
    module: ImportedModule
    action: ModuleAction
    reason: str
    """Why it is refused; empty otherwise."""
    inputs: tuple[NewInput, ...]
    by_hand: tuple[HandSetInput, ...]
    steps: tuple[Step, ...]
    state: StateDecision
    needs_lock: bool
    """Whether its state is brought, or an import that did not end has left its lock."""


class Decisions(msgspec.Struct, frozen=True):
    groups: tuple[GroupDecision, ...]
    modules: tuple[ModuleDecision, ...]

    @property
    def refused(self) -> int:
        """How many modules cannot be made."""
        return sum(each.action == "refused" for each in self.modules)

    @property
    def has_work(self) -> bool:
        """Whether anything is to be made."""
        return any(each.is_new or each.inputs for each in self.groups) or any(
            each.action in ("create", "complete") for each in self.modules
        )


def decide(plan: ImportPlan, there: Existing) -> Decisions:
    """Return what is to be made of a plan."""
    modules = tuple(_module(each, there) for each in plan.modules)
    paths = [each.module.path for each in modules if each.action != "refused"]
    groups = (_group(each, there) for each in plan.groups)
    return Decisions(tuple(each for each in groups if _is_needed(each, paths)), modules)


def _is_needed(decision: GroupDecision, modules: Sequence[str]) -> bool:
    """Return whether a group is there, has anything itself, or gets a module below it."""
    group = decision.group
    has_own = bool(group.inputs or group.by_hand or group.remarks)
    return not decision.is_new or has_own or any(each.startswith(f"{group.path}/") for each in modules)


def _group(group: ImportedGroup, there: Existing) -> GroupDecision:
    known = there.groups.get(group.path)
    inputs = known or frozenset()
    return GroupDecision(group, known is None, _missing(group.inputs, inputs), _missing(group.by_hand, inputs))


def _module(module: ImportedModule, there: Existing) -> ModuleDecision:
    found = there.modules.get(module.path)
    if module.problem:
        return _refused(module, module.problem)
    if module.path in there.groups:
        return _refused(module, f"{module.path} is a group here")
    mark = module.new.labels[0] if module.new.labels else ""
    if found is None and mark in there.elsewhere:
        other = there.elsewhere[mark]
        return _refused(
            module,
            f"it was imported as {other}, and two modules would change the same resources: take the label {mark} from {other} if it "
            "does not manage them any more",
        )
    if found is None:
        state = StateDecision("import" if module.state is not None else "none")
        steps = tuple(step for step, _ in module.steps)
        return ModuleDecision(
            module, "create", "", module.inputs, module.by_hand, steps, state, module.state is not None
        )
    if mark not in found.module.labels:
        return _refused(
            module,
            f"{module.path} exists and does not come from this import: choose another group with --into, or give it the label {mark}",
        )
    inputs = _missing(module.inputs, found.inputs)
    steps = tuple(step for step, _ in module.steps if step not in found.steps)
    state = state_decision(module.state, found.state, is_imported=found.is_state_imported)
    needs_lock = state.action == "import" or found.is_locked_by_import
    is_complete = not inputs and not steps and not needs_lock
    return ModuleDecision(
        module,
        "exists" if is_complete else "complete",
        "",
        inputs,
        _missing(module.by_hand, found.inputs),
        steps,
        state,
        needs_lock,
    )


def state_decision(origin: StateOrigin | None, now: State | None, *, is_imported: bool = True) -> StateDecision:
    """Return whether a state is brought. One that is here is replaced only by a later one of the same lineage.

    Where the source does not tell the lineage, and a job has written the state that is here from nothing, both are compared when the
    state of the source is read.
    """
    if origin is None:
        return StateDecision("none")
    if now is None:
        return StateDecision("import")
    if origin.lineage and origin.lineage != now.lineage:
        return StateDecision("refused", f"the module has a state of another lineage here (serial {now.serial})")
    if not origin.lineage and not is_imported:
        return StateDecision(
            "import", "a job has written a state here: the lineages are compared when the state is read"
        )
    if origin.serial == now.serial:
        return StateDecision("same")
    if origin.serial < now.serial:
        return StateDecision("same", f"the state here is newer: serial {now.serial}, and {origin.serial} at the source")
    return StateDecision("import")


def _refused(module: ImportedModule, reason: str) -> ModuleDecision:
    return ModuleDecision(module, "refused", reason, (), (), (), StateDecision("none"), False)


def _missing(inputs: tuple[GivenInput, ...], there: frozenset[tuple[str, str]]) -> tuple[GivenInput, ...]:
    return tuple(each for each in inputs if (each.target, each.name) not in there)
