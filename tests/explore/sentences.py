"""Servers that each lack one sentence of the design, with the bounds in which that is seen soonest."""

from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from terracrew.api import jobs as model
from terracrew.protocol.events import Result
from terracrew.protocol.messages import AttemptRef
from terracrew.server.jobs import decide
from terracrew.server.jobs.decision_types import Doubt
from terracrew.server.jobs.set_back import decisions
from tests.explore import rows
from tests.explore.moves import Bounds
from tests.explore.server import Server
from tests.explore.world import NEW, NO, NOW, Job, Plan, Runner, Try, World, with_try

ALONE = World(jobs=(Job("QUEUED"),))
WITH_NEW_JOB = World(jobs=(Job("QUEUED"), Job(NEW)))
"""A job, and a later one of the same module that may be claimed when it is created."""
APPROVED = World(jobs=(Job("QUEUED", needs_approval=True),))
_APPROVED_AND_PLAIN = World(jobs=(Job("QUEUED", needs_approval=True), Job("QUEUED")))
RETRIED = World(jobs=(Job("QUEUED", is_retried=True),))
CHOSEN = World(jobs=(Job("QUEUED"), Job("QUEUED", plan=Plan(0, 0, NOW, decided=1), has_waited=True)))
"""A job, and one that was created to apply the plan of a PLAN job (plan 0), which a person has seen."""
ONE_RUNNER = World(jobs=(Job("QUEUED"),), runners=(Runner(),))
TWO = World(jobs=(Job("QUEUED"), Job("QUEUED")))
TWO_ON_ONE_RUNNER = World(jobs=TWO.jobs, runners=(Runner(),))


class Sentence(NamedTuple):
    text: str
    without: type[Server]
    breaks: str
    """What the rule that breaks begins with."""
    bounds: Bounds
    start: World = ALONE


class DoubtBindsTheJob(Server):
    def doubts(self, world: World, it: Try | None) -> tuple[Doubt, ...]:
        own = tuple(other for other in world.tries if it is None or other.job == it.job)
        return super().doubts(world._replace(tries=own), it)


def _hand_back_at_any_time(
    job: model.Job, attempt: model.Attempt, reason: str, now: datetime
) -> decide.Decision | None:
    return decide.hand_back(job, replace(attempt, begun_at=None, started_at=None), reason, now)


class QueuedAgainGoesBehind(Server):
    def is_first_of_module(self, world: World, j: int) -> bool:
        queued = [(job.attempt, k) for k, job in enumerate(world.jobs) if job.status == "QUEUED"]
        return min(queued) == (world.jobs[j].attempt, j)


class HandsBackAfterBegin(Server):
    hand_back = staticmethod(_hand_back_at_any_time)


class BelievesWhoSawNothing(Server):
    def report(self, world: World, i: int, *, saw_process: bool) -> World:
        return super().report(world, i, saw_process=True)


class BeginNamesNoVersion(Server):
    def decide_begin(
        self, world: World, it: Try, module: decide.ModuleFacts, plan: model.Plan | None
    ) -> decide.Decision | str | None:
        return super().decide_begin(world, it._replace(base=rows.NOW), module, plan)


class AdoptsWhileSomebodyMutates(Server):
    def counts_as_mutating(self, is_mutating: bool) -> bool:
        return False


class BeginsWhileTheFencedIsHeard(Server):
    def doubts(self, world: World, it: Try | None) -> tuple[Doubt, ...]:
        return tuple(replace(doubt, is_in_contact=False) for doubt in super().doubts(world, it))


class PermitNeverExpires(Server):
    def expire_permit(self, world: World, i: int) -> World:
        return world


class AnyRunnerIsHeardForAll(Server):
    def is_in_contact(self, world: World, it: Try) -> bool:
        return it.link or world.runners[it.runner].link


class DeliversByTheRunnersRecord(Server):
    def may_deliver(self, world: World, it: Try) -> bool:
        return not world.runners[it.runner].is_removed


def _lost_since_begin(
    job: model.Job, attempt: model.Attempt, heard: decide.LastContact, now: datetime, lease: timedelta
) -> decide.Decision | None:
    if attempt.begun_at is None or attempt.lost_at is not None or heard == rows.HEARD:
        return decide.lost(job, attempt, heard, now, lease)
    return decide.lost(
        job, replace(attempt, lost_at=attempt.begun_at), replace(heard, last=attempt.begun_at), now, lease
    )


class LeaseRunsFromBegin(Server):
    lost = staticmethod(_lost_since_begin)


class LeaseIsNotCanceled(Server):
    def look(self, world: World, i: int) -> World | None:
        return super().look(with_try(world, i, lost=1) if world.tries[i].lost else world, i)


class ApprovalBelongsToTheJob(Server):
    def decide_begin(
        self, world: World, it: Try, module: decide.ModuleFacts, plan: model.Plan | None
    ) -> decide.Decision | str | None:
        job = world.jobs[it.job]
        if not job.seen:
            return super().decide_begin(world, it, module, plan)
        row, version = rows.job_row(it.job, job), rows.VERSIONS[it.base] or 0
        forged = rows.plan_row(it.job, rows.Plan(it.number, it.runner, it.base, rows.LATER))
        found = decide.begin(
            replace(row, plan_attempt=it.number),
            rows.attempt_row(it),
            module,
            version,
            forged,
            rows.THIS_MOMENT,
            has_waited=True,
            plan_sha256="",
        )
        return replace(found, job=row, plan=None) if isinstance(found, decide.Decision) else found


class MarkPassesWithoutTheObject(Server):
    def take_state(self, world: World, i: int, *, is_same_lineage: bool = True) -> World | None:
        it = world.tries[i]
        if it.stored <= it.mark:
            return with_try(world, i, mark=it.mark + 1)
        return super().take_state(world, i, is_same_lineage=is_same_lineage)


class RepeatedBeginIsNotHeard(Server):
    def decide_begin(
        self, world: World, it: Try, module: decide.ModuleFacts, plan: model.Plan | None
    ) -> decide.Decision | str | None:
        found = super().decide_begin(world, it, module, plan)
        return None if it.begun != NO and isinstance(found, decide.Decision) else found


class RepeatedBeginIsNotAnswered(Server):
    def begun_again(self, world: World, i: int) -> World:
        return world


class BelievesWithoutTheMark(Server):
    """What a termination report says of the deliveries is believed."""

    @staticmethod
    def gone(job: model.Job, attempt: model.Attempt, report: decide.Report, now: datetime) -> decide.Decision | None:
        return decide.gone(job, attempt, replace(report, last=attempt.mark), now)


class GoneEndsTheDoubt(Server):
    """After a termination report nothing counts as cut short."""

    @staticmethod
    def gone(job: model.Job, attempt: model.Attempt, report: decide.Report, now: datetime) -> decide.Decision | None:
        return decide.gone(job, replace(attempt, is_change_ended=True), report, now)


class ResultEndsTheDoubt(Server):
    """After a result nothing counts as cut short."""

    @staticmethod
    def finish(job: model.Job, attempt: model.Attempt, result: Result, now: datetime) -> decide.Decision | None:
        return decide.finish(job, replace(attempt, is_change_ended=True), result, now)


class ReturnEndsTheDoubt(Server):
    """A runner that comes back and finds no process of an attempt settles it, whatever was made and not saved."""

    def hello(self, world: World, r: int) -> World:
        for i, it in enumerate(world.tries):
            if it.fenced and it.runner == r and it.phase == "X" and not it.has_engine:
                world = with_try(world, i, fenced=0, is_gone=True)
        return super().hello(world, r)


class PlansAgainUnasked(Server):
    """A job whose plan has waited for a person may apply the next one unasked."""

    def has_waited(self, job: Job) -> bool:
        return False


class ApprovalNamesNoDoubts(Server):
    def decide_approval(
        self, job: model.Job, plan: model.Plan, module: decide.ModuleFacts, seen: tuple[AttemptRef, ...]
    ) -> tuple[model.Job, model.Plan]:
        return super().decide_approval(job, plan, replace(module, doubts=()), seen)


class BeginEndsDoubtsForGood(Server):
    @staticmethod
    def returns_doubts(before: model.Attempt, after: model.Attempt) -> bool:
        return False


class ApprovesStalePlans(Server):
    def decide_approval(
        self, job: model.Job, plan: model.Plan, module: decide.ModuleFacts, seen: tuple[AttemptRef, ...]
    ) -> tuple[model.Job, model.Plan]:
        return super().decide_approval(job, plan, replace(module, state_version=plan.state_version), seen)


class UnaskedCancelIsFinal(Server):
    @staticmethod
    def finish(job: model.Job, attempt: model.Attempt, result: Result, now: datetime) -> decide.Decision | None:
        asked = replace(job, cancel_mode="interrupt") if result.status == "CANCELED" else job
        return decide.finish(asked, attempt, result, now)


class AcceptsEventsAfterTheResult(Server):
    def refuses(self, it: Try) -> bool:
        return False


class AdoptsAnyLineage(Server):
    adopts_any_lineage = True


class HandsOutWhileHeld(Server):
    def is_held(self, world: World) -> bool:
        return False


class HoldIsNoDoubt(Server):
    def doubts(self, world: World, it: Try | None) -> tuple[Doubt, ...]:
        return tuple(doubt for doubt in super().doubts(world, it) if not doubt.is_set_back)


class AssumesNothingBegun(Server):
    def assume_begun(self, it: Try) -> Try:
        return it


class RecallsNothing(Server):
    @staticmethod
    def decide_recall(
        job: model.Job, attempt: model.Attempt, now: datetime, has_begun: bool, version: int
    ) -> decide.Decision | None:
        return None


class ReplacesWhoHasAPermit(Server):
    def decide_restore(
        self,
        known: model.Job | None,
        claimed: model.Job,
        attempt: model.Attempt,
        earlier: model.Attempt | None,
        *,
        is_module_busy: bool,
    ) -> decide.Decision | None:
        return super().decide_restore(known, claimed, attempt, None, is_module_busy=is_module_busy)


class RecallsFromTheCurrentState(Server):
    @staticmethod
    def decide_recall(
        job: model.Job, attempt: model.Attempt, now: datetime, has_begun: bool, version: int
    ) -> decide.Decision | None:
        current = rows.VERSIONS[rows.NOW] or 0
        return decisions.recall(job, attempt, now, has_begun=has_begun, is_proven=has_begun, state_version=current)


def _bounds(
    attempts: int,
    faults: int = 1,
    *,
    has_objects: bool = False,
    has_pauses: bool = False,
    has_set_back: bool = False,
) -> Bounds:
    return Bounds(attempts, faults, has_objects=has_objects, has_pauses=has_pauses, has_set_back=has_set_back)


_SET_BACK = _bounds(2, 0, has_set_back=True)


SENTENCES = (
    Sentence("doubt binds the module and not the job", DoubtBindsTheJob, "Rule 7", _bounds(2), TWO),
    Sentence("hand-back only before begin", HandsBackAfterBegin, "Rule 7", _bounds(1)),
    Sentence("gone only from a runner that saw the process", BelievesWhoSawNothing, "Rule 7", _bounds(1)),
    Sentence("begin names its state version", BeginNamesNoVersion, "Rule 4", _bounds(2)),
    Sentence("no self-adoption between begin and end", AdoptsWhileSomebodyMutates, "Rule 4", _bounds(3)),
    Sentence("no begin while the fenced attempt is heard", BeginsWhileTheFencedIsHeard, "Rule 7", _bounds(3)),
    Sentence("a permit expires", PermitNeverExpires, "Rule 4", _bounds(1)),
    Sentence("heard only for named attempts", AnyRunnerIsHeardForAll, "Rule 6", _bounds(1)),
    Sentence("delivery by the attempt's credential", DeliversByTheRunnersRecord, "Rule 6", _bounds(1)),
    Sentence("the lease runs from the loss", LeaseRunsFromBegin, "Rule 6", _bounds(1)),
    Sentence("the lease is over when the attempt is heard", LeaseIsNotCanceled, "Rule 6", _bounds(1, 2)),
    Sentence("an approval belongs to one plan", ApprovalBelongsToTheJob, "Rule 4", _bounds(3), APPROVED),
    Sentence("the mark waits for the object", MarkPassesWithoutTheObject, "Rule 3", _bounds(1, 0, has_objects=True)),
    Sentence("a repeated begin is answered", RepeatedBeginIsNotAnswered, "Rule 6", _bounds(1)),
    Sentence("who repeats its begin is heard", RepeatedBeginIsNotHeard, "Rule 4", _bounds(1, 2, has_pauses=True)),
    Sentence(
        "a termination report is compared with the mark", BelievesWithoutTheMark, "Rule 9", _bounds(2, 2), RETRIED
    ),
    Sentence("a terminated attempt may have been cut short", GoneEndsTheDoubt, "Rule 9", _bounds(2)),
    Sentence("the result of a killed engine leaves a doubt", ResultEndsTheDoubt, "Rule 9", _bounds(2), TWO),
    Sentence("a runner that comes back ends no doubt", ReturnEndsTheDoubt, "Rule 9", _bounds(2)),
    Sentence("a job that plans again asks again", PlansAgainUnasked, "Rule 4", _bounds(3)),
    Sentence(
        "a job that applies the plan of another one asks before it applies its own",
        PlansAgainUnasked,
        "Rule 4",
        _bounds(2),
        CHOSEN,
    ),
    Sentence("an approval names the doubts", ApprovalNamesNoDoubts, "Rule 9", _bounds(2)),
    Sentence(
        "doubts come back if what they were approved with is cut short",
        BeginEndsDoubtsForGood,
        "Rule 9",
        _bounds(3, 2),
        ONE_RUNNER,
    ),
    Sentence("a stale plan is not approved", ApprovesStalePlans, "Rule 9", _bounds(3), _APPROVED_AND_PLAIN),
    Sentence("an unasked CANCELED is a loss", UnaskedCancelIsFinal, "Rule 6", _bounds(1)),
    Sentence("nothing is accepted after a result", AcceptsEventsAfterTheResult, "Rule 2", _bounds(1)),
    Sentence("a state with another lineage is quarantined", AdoptsAnyLineage, "Rule 3", _bounds(1)),
    Sentence("a job that is queued again keeps its turn", QueuedAgainGoesBehind, "Rule 11", _bounds(2, 0), TWO),
    Sentence("nothing is handed out while the server is held", HandsOutWhileHeld, "Rule 10", _SET_BACK),
    Sentence("an approval names the hold", HoldIsNoDoubt, "Rule 7", _SET_BACK),
    Sentence("who runs at a hold counts as begun", AssumesNothingBegun, "Rule 7", _bounds(1, 1, has_set_back=True)),
    Sentence("an executor tells that it has begun", RecallsNothing, "Rule 3", _SET_BACK),
    Sentence(
        "a receipt replaces nobody who has a permit",
        ReplacesWhoHasAPermit,
        "Rule 4",
        _bounds(3, 0, has_set_back=True),
        ONE_RUNNER,
    ),
    Sentence(
        "who began in the lost time may build on another state",
        RecallsFromTheCurrentState,
        "Rule 3",
        _SET_BACK,
        TWO_ON_ONE_RUNNER,
    ),
)
