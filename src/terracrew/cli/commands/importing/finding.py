"""Reads what is there of what an import is going to make."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from terracrew.api.groups import Group
from terracrew.api.inputs import InputView
from terracrew.api.module_views import ModuleListed, ModuleView
from terracrew.api.states import State
from terracrew.api.steps import StepSettings
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
    listed = [each.path for each in _listed(api, wanted, paths) if each.path in wanted]
    found: dict[str, FoundModule] = {}
    for number, path in enumerate(listed, 1):
        report(f"reading what is here: {number} of {len(listed)}")
        there = module(api, wanted[path])
        if there is not None:
            found[path] = there
    return Existing(groups, found)


def module(api: "Api", wanted: ImportedModule) -> FoundModule | None:
    """Return the module that has the path of a wanted one; None if there is none."""
    path = segment(wanted.path)
    try:
        found = api.get(f"/modules/{path}", ModuleView)
    except NotFound:
        return None
    states = api.list(f"/modules/{path}/states", State) if found.state_version and wanted.state is not None else ()
    steps = api.get(f"/modules/{path}/steps", list[StepSettings]) if wanted.steps else []
    person = found.lock.person if found.lock is not None else None
    return FoundModule(
        module=found,
        state=next((each for each in states if each.status == "current"), None),
        inputs=_inputs(api, wanted.path) if wanted.inputs or wanted.by_hand else frozenset(),
        steps=frozenset(each.step for each in steps if each.path == wanted.path),
        is_locked_by_import=person is not None and person.client_lock_id == lock_id(wanted),
    )


def lock_id(module: ImportedModule) -> str:
    """Return the id of the lock that an import takes of a module. It is always the same, so that the next run knows it."""
    return f"import:{module.new.labels[0]}"


def _listed(api: "Api", wanted: dict[str, ImportedModule], groups: set[str]) -> list[ModuleListed]:
    tops = {path.partition("/")[0] for path in wanted if "/" in path}
    is_below_one = len(tops) == 1 and all("/" in path for path in wanted)
    if not wanted or (is_below_one and not tops & groups):
        return []
    within = {"group": tops.pop()} if is_below_one else {}
    return list(api.list("/modules", ModuleListed, recursive=True, limit=_PAGE_ITEMS, **within))


def _inputs(api: "Api", place: str) -> frozenset[tuple[str, str]]:
    found = api.list("/inputs", InputView, place=place or "/", inherited=False)
    return frozenset((each.target, each.name) for each in found)
