"""The view of a job: everything that people see of it except its log."""

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from terracrew.api import fields
from terracrew.api.failures import class_of
from terracrew.api.job_views import AttemptReport, HeldLock, JobView, LapsedApproval, ModuleHold
from terracrew.api.jobs import CHOSEN, Attempt, Job, JobStatus, Plan, StepRow
from terracrew.api.locks import Lock
from terracrew.api.policies import PolicyCheck
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import STEPS_OF, JobType, Source, Step
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.jobs import attempt_store, service
from terracrew.server.jobs.decision_types import hold_ref
from terracrew.server.jobs.plans import approver_rules, approvers, decide_plan, destruction
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.policies import store as policy_store
from terracrew.server.runs import attempt_report, module_view, reads, reasons, summary
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import policy
from terracrew.wording import plan_words

MAX_QUICK_ATTEMPTS = 20
"""The view of a job with more attempts than this is not read on the event loop."""
MAX_BLOCKED_SECONDS, BLOCKED_WITHIN_SECONDS = 0.01, 0.1
"""How much of its time views may take from the event loop, and within which time. Many viewers of one job all ask at once, and one
view takes tens of milliseconds if its plan has very many resources: what is more than this is read in threads."""


class LoopShare:
    """Measures how long the event loop was blocked lately."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._spent = 0.0

    def is_left(self) -> bool:
        now = time.monotonic()
        if now - self._since >= BLOCKED_WITHIN_SECONDS:
            self._since, self._spent = now, 0.0
        return self._spent < MAX_BLOCKED_SECONDS

    @contextmanager
    def spending(self) -> Generator[None]:
        started = time.thread_time()
        try:
            yield
        finally:
            self._spent += time.thread_time() - started


_UNINFORMED = (
    "approved it before a change was cut short, the database was set back or a policy denied it, and has to look again"
)
_source = msgspec.json.Decoder(Source)
loop_share = LoopShare()
"""All servers of a process have one event loop."""


async def current(db: Database, find: Callable[[Tx], Awaitable[Job]], watch: reasons.Watch) -> JobView:
    """Read the view of a job: on the event loop if it is a few rows, which costs less than a thread, and elsewhere if not."""

    async def quickly(tx: Tx) -> JobView | None:
        return await _read_quickly(tx, await find(tx), watch)

    async def wholly(tx: Tx) -> JobView:
        return await read(tx, await find(tx), watch)

    if db.kind != "sqlite":  # its statements block nobody
        return await db.read(quickly) or await db.read_in_background(wholly)
    found = None
    if loop_share.is_left():
        with loop_share.spending():
            found = await db.read(quickly)
    return found or await db.read_in_background(wholly)


async def read(tx: Tx, job: Job, watch: reasons.Watch) -> JobView:
    """Return the view of a job."""
    row = await _surroundings(tx, job)
    doubts = [] if job.is_terminal else await attempt_report.doubts(tx, job.module_id)
    held = await module_view.held_lock(tx, job.module_id, row["backend"]) if _is_concerned(job) else None
    return await _view(tx, job, watch, row, doubts, held)


async def _read_quickly(tx: Tx, job: Job, watch: reasons.Watch) -> JobView | None:
    """Return the view of a job; None if it may depend on the queue, on logs, or on all attempts of its module."""
    is_simple = (job.is_active or job.is_terminal) and job.attempt <= MAX_QUICK_ATTEMPTS
    if not is_simple:
        return None
    row = await _surroundings(tx, job)
    if row["is_in_doubt"]:
        return None
    return None if _is_concerned(job) and row["backend"] == "own" else await _view(tx, job, watch, row, [], None)


async def _surroundings(tx: Tx, job: Job) -> Row:
    row = await reads.surroundings(tx, job.id)
    assert row is not None
    return row


async def _view(
    tx: Tx, job: Job, watch: reasons.Watch, row: Row, doubts: list[AttemptReport], held: HeldLock | None
) -> JobView:
    kept = None if job.plan_attempt is None else await plan_store.get(tx, job.id, job.plan_attempt)
    is_stale = kept is not None and not job.is_terminal and kept.state_version != row["state_version"]
    held_since = await module_view.holds(tx, job.module_id) if row["has_holds"] and not job.is_terminal else []
    attempts = await attempt_store.attempts(tx, job.id)
    steps = await _steps(tx, job, row["plan_job_number"])
    return JobView(
        **msgspec.structs.asdict(job),
        steps=steps,
        failure_class=class_of(job.status, job.failure_kind, _failed_step(job, steps)),
        attempts=attempts,
        run=await summary.parts(tx, job, attempts, [step for step in steps if step.attempt == job.attempt]),
        notes=await attempt_store.notes(tx, job.id) if row["has_notes"] else [],
        lock=await _lock(tx, job, attempts),
        placement=await module_view.placement_of(tx, row),
        reason=await reasons.why(tx, job, watch),
        kept_plan=kept,
        **await _approvals(tx, job, kept, doubt_refs(doubts, held_since), is_stale=is_stale),
        policy_checks=[fields.created(PolicyCheck, each) for each in await policy_store.results(tx, job.id)],
        **await _plan_for_another_job(tx, job, kept, row),
        plan_job_number=row["plan_job_number"],
        is_plan_stale=is_stale,
        doubts=doubts,
        holds=held_since,
        used_by=await dependencies.users(tx, watch.reader, job.module_id) if _removes_everything(job) else [],
        held_lock=held,
        module_path=row["module_path"],
        cause_number=row["cause_number"],
        engine=row["engine"],
        runner_path=row["runner_path"],
        instance_name=row["instance_name"],
    )


def _failed_step(job: Job, steps: Sequence[StepRow]) -> Step | None:
    return next((each.name for each in steps if each.status == "FAILED" and each.attempt == job.attempt), None)


async def _lock(tx: Tx, job: Job, attempts: Sequence[Attempt]) -> Lock | None:
    """Return who holds the lock of the module, which is the job itself while it is active."""
    own = next((each for each in attempts if each.number == job.attempt), None) if job.is_active else None
    if own is None:
        return await service.lock(tx, job.module_id)
    return Lock(job.id, job.number, job.attempt, own.claimed_at, own.lost_at)


def _removes_everything(job: Job) -> bool:
    return job.only_destroys or (job.plan is not None and destruction.removes_everything(job.plan))


def _is_concerned(job: Job) -> bool:
    """Return whether a lock that was left behind may stop the job, or may have made it fail."""
    return not job.is_terminal or job.status is JobStatus.FAILED


def doubt_refs(doubts: Sequence[AttemptReport], held: Sequence[ModuleHold]) -> list[AttemptRef]:
    """Return what an approval has to name, so that it counts: the doubts of the module."""
    refs = [AttemptRef(each.job_id, each.attempt) for each in doubts]
    return refs + [hold_ref(each.hold_id) for each in held if each.is_in_doubt]


async def _approvals(
    tx: Tx, job: Job, plan: Plan | None, doubts: Sequence[AttemptRef], *, is_stale: bool
) -> dict[str, Any]:
    """Return how many people must approve a plan that waits, how many have, whose approval has lapsed, and who could approve."""
    if job.status is not JobStatus.AWAITING_APPROVAL or plan is None:
        return {}
    rules = await policy.of_module(tx, job.module_id)
    place = await service.place_of(tx, job)
    known = await approvers.read(tx, job, plan, rules, place)
    informed = approver_rules.informed(plan.approvals, doubts, known.facts)
    counted = len(approver_rules.distinct(informed, known.facts))
    lapsed = [
        LapsedApproval(each.by, known.reasons.get(each.by_id, _UNINFORMED))
        for each in plan.approvals
        if each.by_id in known.reasons or each not in informed
    ]
    return {
        "approvals_needed": counted + approver_rules.missing(informed, max(1, rules.min_approvals), known.facts),
        "approvals_counted": counted,
        "policy_needs": [each.words for each in known.facts.needs],
        "lapsed_approvals": lapsed,
        "approvers": [] if is_stale else await approvers.possible(tx, job, plan, rules, known.facts, doubts),
    }


async def _plan_for_another_job(tx: Tx, job: Job, plan: Plan | None, row: Row) -> dict[str, Any]:
    """Return whether another job can apply the plan of a PLAN job, why not, and which one does."""
    if job.type is not JobType.PLAN or job.status is not JobStatus.SUCCEEDED or not plan_words.has_changes(job.plan):
        return {}
    if plan is not None and plan.taken_by:
        return {"taken_by_number": await reads.number_of(tx, plan.taken_by)}
    source, now = _source.decode(row["module_source"]), tx.moment
    problem = decide_plan.refusal_to_apply(job, plan, state_version=row["state_version"], source=source, now=now)
    return {"is_plan_applicable": problem is None, "plan_problem": problem or ""}


async def _steps(tx: Tx, job: Job, plan_job_number: int | None) -> list[StepRow]:
    """Return its steps as one sequence: those of its attempt and, with a saved plan, of the attempt that made the plan.

    `plan_job_number` is the PLAN job whose plan it was created to apply. The steps of that one are shown there.
    """
    found = {step.name: step for step in await attempt_store.steps(tx, job.id, job.attempt)}
    own = [found.get(step, StepRow(step, "PENDING")) for step in STEPS_OF.get(job.type, ())]
    if job.plan_attempt == CHOSEN:
        return [_kept_from(step, job.attempt, plan_job_number) for step in own]
    is_resumed = job.plan_attempt not in (None, job.attempt)
    made = (
        await attempt_store.steps(tx, job.id, job.plan_attempt) if is_resumed and job.plan_attempt is not None else []
    )
    return summary.merged(own, job.attempt, made, job.plan_attempt)


def _kept_from(step: StepRow, attempt: int, number: int | None) -> StepRow:
    """Return a step of a job that applies the plan of a PLAN job, and say where one that it skips was run."""
    is_earlier = step.name.phase == "plan" and step.name is not Step.FETCH and step.status in ("PENDING", "SKIPPED")
    if not is_earlier:
        return msgspec.structs.replace(step, attempt=attempt)
    return msgspec.structs.replace(step, status="SKIPPED", attempt=attempt, kept_from=step.kept_from or number)
