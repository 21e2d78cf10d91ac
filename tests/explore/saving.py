"""How the explorer's server loads rows, lets one of the functions of `decide` decide, and saves what that says."""

from collections.abc import Callable
from typing import Any

from terracrew.api.jobs import Attempt
from terracrew.errors import Conflict
from terracrew.server.jobs import decide
from tests.explore import rows
from tests.explore.world import (
    HOLD,
    ROW,
    Job,
    Try,
    World,
    answered,
    is_spent,
    name_of,
    with_job,
    with_try,
)

Decision = tuple[Job, dict[str, object], bool] | str | None


class Saving:
    """What was decided once about the same rows is not asked again."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Any] = {}

    def settle(self, world: World, i: int, verdict: Callable[..., Any], *args: object) -> World | None:
        it = world.tries[i]
        job = world.jobs[it.job]
        key = (verdict, job, it[ROW], args)
        if key not in self._known:
            try:
                found = verdict(rows.job_row(it.job, job), rows.attempt_row(it), *args)
            except Conflict:
                found = None
            self._known[key] = None if found is None else self._saved(job, it, found)
        saved = self._known[key]
        return None if saved is None else self._save(world, i, saved)

    @staticmethod
    def returns_doubts(before: Attempt, after: Attempt) -> bool:
        return decide.returns_doubts(before, after)

    def _saved(self, job: Job, it: Try, found: decide.Decision) -> Decision:
        return rows.job_of(job, found.job, found.plan, it.runner), rows.row_of(it, found.attempt), found.ends_doubt

    def _save(self, world: World, i: int, saved: tuple[Job, dict[str, object], bool]) -> World:
        job, row, ends_doubt = saved
        was, seen = world.tries[i], job.plan.decided if job.plan else 0
        world = with_job(with_try(world, i, **row), world.tries[i].job, job)
        it = world.tries[i]
        if ends_doubt:
            # Who approves with the hold named knows that any attempt may have made what no state has.
            is_hold_seen = any(other.job == HOLD and 0 < other.fenced < seen for other in world.tries)
            tries = (
                other._replace(fenced=0, is_excused=other.is_excused or seen > other.fenced, answered_by=name_of(it))
                if other.fenced
                else other._replace(is_excused=True)
                if is_hold_seen and other.outcome
                else other
                for other in world.tries
            )
            world = world._replace(tries=tuple(tries))
        if it.outcome and not was.outcome:
            returns = self.returns_doubts(rows.attempt_row(was), rows.attempt_row(it))
            world = answered(world, it, returns=returns)
        if job.is_retried and it.outcome and it.is_gone and is_spent(it):
            world = with_try(world, i, is_excused=True)  # to make a thing twice does no harm there
        return world
