"""A run of a group: the order of its modules, and what has become of each of them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from terracrew.protocol.events import PlanSummary
from terracrew.server.scheduling.model import Reason

RunType = Literal["PLAN", "APPLY", "DESTROY"]
RunStatus = Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELED"]
ModuleStatus = Literal["WAITING", "RUNNING", "SUCCEEDED", "FAILED", "SKIPPED", "CANCELED"]
"""WAITING: for other modules of the run. SKIPPED: one of those did not succeed, so it was not run."""
_WORDS = {"FAILED": "failed", "SKIPPED": "was not run", "CANCELED": "was canceled"}


class GroupRun(msgspec.Struct, frozen=True):
    """A run of all modules below a group."""

    id: str
    organization_id: str
    group_id: str
    path: str
    """The path of the group; empty for the organization."""
    type: RunType
    status: RunStatus
    started_by: str
    """The id of the person or service account that started or resumed it. Its jobs are created with their permissions."""
    started_by_name: str
    created_at: datetime
    finished_at: datetime | None = None


class RunModule(msgspec.Struct, frozen=True):
    """A module of a run."""

    run_id: str
    module_id: str
    path: str
    position: int
    """Its place in the order: 0 for modules that wait for no other one, and so on."""
    waits_for: list[str]
    """The ids of the modules of the run that must succeed before it is run."""
    status: ModuleStatus = "WAITING"
    job_id: str | None = None
    message: str = ""
    """Why it failed or was skipped."""


class NewGroupRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request for a run."""

    type: RunType
    """APPLY runs a module after those whose outputs it uses, DESTROY before them. PLAN plans all of them at once, with the outputs that
    exist now."""


class RunModuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A module of a run as people see it."""

    module_id: str
    path: str
    position: int
    waits_for: list[str]
    """The paths of the modules that must succeed before it is run."""
    status: ModuleStatus
    job_id: str | None
    job_number: int | None
    job_status: str | None
    message: str
    reason: Reason | None
    """Why its job does not proceed, for example because its plan waits for approval."""
    plan: PlanSummary | None = None
    """What the plan of its job would do, without the list of resources."""
    has_changes: bool = False
    """Whether that plan would do anything."""
    is_plan_applicable: bool = False
    """Whether the plan of a PLAN job can be applied as it is."""
    plan_problem: str = ""
    """Why that plan cannot be applied although it would change something."""


class GroupRunView(GroupRun, frozen=True, kw_only=True):
    """A run with its modules, in the order in which they are run."""

    modules: list[RunModuleView]


class NextStep(msgspec.Struct, frozen=True):
    """What follows from the modules of a run."""

    modules: list[RunModule]
    """All modules, with those that are skipped now."""
    ready: list[RunModule]
    """The modules whose jobs can be created now."""
    status: RunStatus
    """The status of the run, if none is ready."""


def waits(type_: RunType, members: Iterable[str], references: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return for each module of a run those that come before it. A reference is a module and one whose output it uses.

    What uses a module is destroyed before it.
    """
    found: dict[str, set[str]] = {module_id: set() for module_id in members}
    for user, source in references:
        later, earlier = (source, user) if type_ == "DESTROY" else (user, source)
        if later in found and earlier in found and later != earlier:
            found[later].add(earlier)
    return {module_id: sorted(earlier) for module_id, earlier in found.items()}


def positions(before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the length of the longest chain of modules before each one. Modules of a cycle come last.

    References make no cycle, but what waits for itself must not stop the server.
    """
    found: dict[str, int] = {}
    left = dict(before)
    while left:
        free = {module_id for module_id, earlier in left.items() if all(each in found for each in earlier)}
        if not free:
            return found | dict.fromkeys(left, len(before))
        found |= {module_id: max((found[each] + 1 for each in left[module_id]), default=0) for module_id in free}
        left = {module_id: earlier for module_id, earlier in left.items() if module_id not in free}
    return found


def next_step(modules: Sequence[RunModule]) -> NextStep:
    """Skip what waits for a module that did not succeed, and find what can be run now."""
    known = {each.module_id: each for each in modules}
    for each in sorted(modules, key=lambda each: each.position):
        if each.status != "WAITING":
            continue
        missed = [known[other] for other in each.waits_for if other in known and known[other].status in _WORDS]
        if missed:
            message = f"`{missed[0].path}` {_WORDS[missed[0].status]}, so it was not run"
            known[each.module_id] = replace(each, status="SKIPPED", message=message)
    after = [known[each.module_id] for each in modules]
    ready = [
        each
        for each in after
        if each.status == "WAITING"
        and all(known[other].status == "SUCCEEDED" for other in each.waits_for if other in known)
    ]
    return NextStep(after, ready, _status(after))


def _status(modules: Sequence[RunModule]) -> RunStatus:
    found = {each.status for each in modules}
    if found & {"WAITING", "RUNNING"}:
        return "RUNNING"
    if found & {"FAILED", "SKIPPED"}:
        return "FAILED"
    return "CANCELED" if "CANCELED" in found else "SUCCEEDED"
