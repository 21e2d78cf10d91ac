"""A run of a group: the order of its modules, and what has become of each of them."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from terracrew.api.group_runs import ModuleStatus, RunStatus, RunType

_WORDS = {"FAILED": "failed", "SKIPPED": "was not run", "CANCELED": "was canceled"}


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
