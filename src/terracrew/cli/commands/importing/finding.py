"""Reads what is there of what an import is going to make."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from terracrew.api.groups import Group
from terracrew.api.inputs import InputView
from terracrew.api.module_views import ModuleListed, ModuleView
from terracrew.api.states import State
from terracrew.api.steps import StepSettings
from terracrew.cli.commands.importing import spelling
from terracrew.cli.commands.importing.existing import Existing, FoundModule
from terracrew.cli.commands.importing.model import ImportedModule, ImportPlan
from terracrew.client.address import segment
from terracrew.errors import NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

_PAGE_ITEMS = 100


def existing(api: "Api", plan: ImportPlan, report: Callable[[str], None] = lambda _: None) -> Existing:
    """Return the groups and modules that are there of those that a plan names."""
    paths = {each.path for each in api.list("/groups", Group, limit=_PAGE_ITEMS)}
    groups = {path: frozenset[tuple[str, str]]() for path in paths} | {"": frozenset[tuple[str, str]]()}
    for each in plan.groups:
        if (each.inputs or each.by_hand) and each.path in groups:
            groups[each.path] = _inputs(api, each.path)
    wanted = {each.path: each for each in plan.modules if not each.problem}
    listed: list[str] = []
    elsewhere: dict[str, str] = {}
    for each in api.list("/modules", ModuleListed, recursive=True, limit=_PAGE_ITEMS) if wanted else ():
        if each.path in wanted:
            listed.append(each.path)
        else:
            elsewhere |= {label: each.path for label in each.labels if spelling.is_of_import(label)}
    found: dict[str, FoundModule] = {}
    for number, path in enumerate(listed, 1):
        report(f"reading what is here: {number} of {len(listed)}")
        there = module(api, wanted[path])
        if there is not None:
            found[path] = there
    return Existing(groups, found, elsewhere)


def module(api: "Api", wanted: ImportedModule) -> FoundModule | None:
    """Return the module that has the path of a wanted one; None if there is none."""
    path = segment(wanted.path)
    try:
        found = api.get(f"/modules/{path}", ModuleView)
    except NotFound:
        return None
    has_state = found.state_version and wanted.state is not None
    states = list(api.list(f"/modules/{path}/states", State)) if has_state else []
    current = next((each for each in states if each.status == "current"), None)
    steps = api.get(f"/modules/{path}/steps", list[StepSettings]) if wanted.steps else []
    person = found.lock.person if found.lock is not None else None
    return FoundModule(
        module=found,
        state=current,
        is_state_imported=current is None
        or any(each.origin == "imported" and each.lineage == current.lineage for each in states),
        inputs=_inputs(api, wanted.path) if wanted.inputs or wanted.by_hand else frozenset(),
        steps=frozenset(each.step for each in steps if each.path == wanted.path),
        is_locked_by_import=person is not None and person.client_lock_id == lock_id(wanted),
    )


def lock_id(module: ImportedModule) -> str:
    """Return the id of the lock that an import takes of a module. It is always the same, so that the next run knows it."""
    return f"import:{module.new.labels[0]}"


def _inputs(api: "Api", place: str) -> frozenset[tuple[str, str]]:
    found = api.list("/inputs", InputView, place=place or "/", inherited=False)
    return frozenset((each.target, each.name) for each in found)
