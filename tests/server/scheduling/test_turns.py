"""Within a priority, organizations take turns, and so do the groups of each, whatever their jobs ask for."""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terracrew.server.db.seam import Database
from terracrew.server.db.topics import FreedKey
from terracrew.server.scheduling.assignment_view import Route
from terracrew.server.scheduling.lines import WaitingLines
from terracrew.server.scheduling.queue import MAX_DISCARDED_ENTRIES, FairQueue, Waiting
from terracrew.server.scheduling.turns import GroupTurns
from tests.builders.job_rows import JobRows, change_modules
from tests.server.scheduling.recorded_claims import ClaimRecorder

pytestmark = pytest.mark.feature("S3.turns")
ROUTES = [Route("tofu", frozenset(tags), places=("*",)) for tags in ((), ("big",), ("arm",))]


def job(number: int, organization: str = "org", group: str = "a", priority: int = 0) -> Waiting:
    path = f"{group}/m{number}"
    return Waiting(f"job_{number}", number, 1, organization, path, path, group, "tofu", priority, float(number))


def served(lines: WaitingLines) -> list[int]:
    """Serve all jobs of all lines, one after the other. Returns their numbers."""
    found: list[int] = []
    for route in lines.in_turn(ROUTES):
        if (each := lines.pop(route)) is not None:
            lines.turns.take(each)
            found.append(each.number)
    return found


@pytest.mark.parametrize("tags", [[], ["big"]])
async def test_a_group_with_one_job_has_its_turn_beside_one_with_many(database: Database, tags: list[str]) -> None:
    """Groups took turns within a line only: jobs that asked for a tag were in another line, and all of them came first."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    instance = await rows.runner(slots=1)
    many, one = await rows.group("many"), await rows.group("one")
    modules = [await rows.module(f"many/{number}", many) for number in range(6)]
    modules.append(await rows.module("one/only", one))
    await change_modules(rows.db, many, tags=tags)
    jobs = [await rows.job(module) for module in modules]
    _, socket = recorder.connect(instance, slots=1, tags=["big"])
    await recorder.scheduler.sweep()
    for _ in jobs:
        offered = socket.claims[-1]
        module = modules[jobs.index(offered)]
        recorder.scheduler.claimed(offered)
        await recorder.scheduler.step({("freed", FreedKey(offered, module, instance.id).encode())})
    assert sorted(socket.claims) == sorted(jobs)
    assert socket.claims.index(jobs[-1]) <= 1


def test_an_organization_with_many_groups_has_no_more_turns_than_one_with_a_single_group() -> None:
    """Each group had a turn of its own, so that whoever had more groups had more of the shared runners."""
    lines = WaitingLines(GroupTurns())
    for number in range(4):
        lines.push(job(number, "large", f"group-{number}"), ROUTES[number % 2])
    for number in range(10, 13):
        lines.push(job(number, "small"), ROUTES[2])
    assert served(lines) == [0, 10, 1, 11, 2, 12, 3]


def test_groups_of_two_organizations_take_turns_although_they_have_the_same_path() -> None:
    """A group with the name of another organization's group shared its turns: its backlog came before the other's first job."""
    lines = WaitingLines(GroupTurns())
    for number in range(5):
        lines.push(job(number, "mine"), ROUTES[0])
    lines.push(job(100, "theirs"), ROUTES[0])
    assert served(lines) == [0, 100, 1, 2, 3, 4]


def test_a_higher_priority_comes_before_every_turn_and_takes_none_of_a_lower_one() -> None:
    lines = WaitingLines(GroupTurns())
    for number in range(3):
        lines.push(job(number, "mine", priority=5), ROUTES[0])
    lines.push(job(3, "mine"), ROUTES[1])
    lines.push(job(4, "theirs"), ROUTES[1])
    assert served(lines) == [0, 1, 2, 3, 4]


def test_a_job_that_is_removed_without_being_served_takes_no_turn() -> None:
    """A group at its limit of running jobs has many of them, and its other groups would lose their turns to them."""
    lines = WaitingLines(GroupTurns())
    for number, organization in enumerate(("mine", "mine", "theirs", "theirs")):
        lines.push(job(number, organization, f"group-{number}"), ROUTES[0])
    lines.pop(ROUTES[0])
    assert served(lines) == [1, 2, 3]


def test_a_queue_that_nobody_takes_from_forgets_what_was_canceled() -> None:
    queue = FairQueue(GroupTurns())
    for number in range(10 * MAX_DISCARDED_ENTRIES):
        queue.push(job(number))
        if number:
            queue.discard(f"job_{number}")
    assert queue.entries <= 2 * MAX_DISCARDED_ENTRIES + 2
    found = queue.pop()
    assert found is not None
    assert found.id == "job_0"
    assert queue.pop() is None


class Overtakings:
    """How often each of the others was served while somebody waited: organizations of a priority, or groups of an organization."""

    def __init__(self, scope: Callable[[Waiting], tuple[object, ...]], name: Callable[[Waiting], str]) -> None:
        self._scope, self._name = scope, name
        self._counts: dict[tuple[object, ...], Counter[str]] = {}

    def serve(self, job: Waiting, waiting: Iterable[Waiting]) -> None:
        beside = {self._name(each) for each in waiting if self._scope(each) == self._scope(job)} - {self._name(job)}
        for other in beside:
            counts = self._counts.setdefault((*self._scope(job), other), Counter())
            counts[self._name(job)] += 1
            assert counts[self._name(job)] == 1, f"{other} waits, and {self._name(job)} was served twice"
        self._counts.pop((*self._scope(job), self._name(job)), None)

    def forget(self, waiting: Iterable[Waiting]) -> None:
        """Forget who does not wait any more."""
        left = {(*self._scope(each), self._name(each)) for each in waiting}
        self._counts = {key: counts for key, counts in self._counts.items() if key in left}


PUSHES = st.tuples(st.sampled_from(ROUTES), st.sampled_from("xyz"), st.sampled_from("abc"), st.sampled_from([0, 0, 5]))
STEPS = st.one_of(PUSHES, st.sampled_from(["serve", "cancel"]))


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.lists(STEPS, max_size=60))
def test_who_waits_sees_each_of_the_others_served_at_most_once(steps: list[tuple[Route, str, str, int] | str]) -> None:
    lines, waiting = WaitingLines(GroupTurns()), dict[str, tuple[Waiting, Route]]()
    organizations = Overtakings(lambda each: (each.priority,), lambda each: each.organization_id)
    groups = Overtakings(lambda each: (each.priority, each.organization_id), lambda each: each.group_path)
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            route, organization, group, priority = step
            each = job(number, organization, group, priority)
            waiting[each.id] = each, route
            lines.push(each, route)
        elif step == "cancel" and waiting:
            each, route = waiting.pop(next(iter(waiting)))
            lines.discard(each.id, route)
        elif waiting:
            each = lines.pop(next(lines.in_turn(ROUTES)))
            assert each is not None
            lines.turns.take(each)
            del waiting[each.id]
            left = [other for other, _ in waiting.values()]
            assert all(other.priority <= each.priority for other in left)
            organizations.serve(each, left)
            groups.serve(each, left)
        left = [other for other, _ in waiting.values()]
        organizations.forget(left)
        groups.forget(left)
    assert len(served(lines)) == len(waiting), "nobody is forgotten"
