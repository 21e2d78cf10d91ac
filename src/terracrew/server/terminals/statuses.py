"""Says in the words of a command line what became of a run, from the job that plans and the job that applies. Pure functions."""

from typing import NamedTuple

from terracrew.api.jobs import Job, JobStatus, Plan
from terracrew.protocol.events import PlanSummary
from terracrew.protocol.spec import JobType, Step
from terracrew.server.terminals.model import PhaseStatus, RunStatus, TerminalRun
from terracrew.wording import plan_words

_S = JobStatus
_STATUS_OF_APPLY: dict[PhaseStatus, RunStatus] = {
    "queued": "apply_queued",
    "running": "applying",
    "finished": "applied",
    "errored": "errored",
    "canceled": "canceled",
}


class SeenRun(NamedTuple):
    """What is known of a run."""

    run: TerminalRun
    job: Job
    """The job that plans, and that applies as well if nobody is asked at the prompt."""
    applying: Job | None = None
    """The job that applies the plan of a PLAN, once somebody has said yes."""
    is_applicable: bool = False
    """Whether the plan of a PLAN can be applied now."""
    is_changing: bool = False
    """Whether the only job of a run has finished its plan, and waits for a decision or changes something."""

    @property
    def is_single(self) -> bool:
        """Whether one job plans and applies."""
        return self.job.type is not JobType.PLAN


def has_changes(seen: SeenRun) -> bool:
    """Return whether there is, or was, something to apply."""
    job = seen.job
    if job.is_refresh_only:
        # What was changed outside is in the diff alone, and recording nothing does no harm.
        return not seen.run.is_plan_only
    if job.plan is None:
        return seen.is_changing  # the attempt whose plan it was is lost, and the job plans again
    return plan_words.has_changes(job.plan)


def status(seen: SeenRun) -> RunStatus:
    job, run = seen.job, seen.run
    if job.status in (_S.FAILED, _S.DECLINED):
        return "errored"
    if job.status is _S.CANCELED:
        return "canceled"
    if seen.is_single:
        return _status_of_single(seen)
    if job.status is not _S.SUCCEEDED:
        return "planning" if job.status is _S.PROCESSING else "plan_queued"
    if seen.applying is not None:
        return _STATUS_OF_APPLY[_phase(seen.applying)]
    if run.is_plan_only or not has_changes(seen):
        return "planned_and_finished"
    if run.discarded_by or not seen.is_applicable:
        return "discarded"
    return "planned_and_saved" if run.is_saved else "planned"


def _status_of_single(seen: SeenRun) -> RunStatus:
    if seen.job.status is _S.SUCCEEDED:
        return "applied" if has_changes(seen) else "planned_and_finished"
    if seen.is_changing:
        return "applying" if seen.job.status is _S.PROCESSING else "apply_queued"
    return "planning" if seen.job.status is _S.PROCESSING else "plan_queued"


def plan_status(seen: SeenRun) -> PhaseStatus:
    job = seen.job
    if seen.is_changing or job.status is _S.SUCCEEDED or (job.is_terminal and job.plan is not None):
        return "finished"
    return _phase(job)


def apply_status(seen: SeenRun) -> PhaseStatus:
    if seen.applying is not None:
        return _phase(seen.applying)
    if seen.is_single and seen.is_changing:
        return _phase(seen.job)
    return "unreachable" if seen.job.is_terminal else "queued"


def _phase(job: Job) -> PhaseStatus:
    match job.status:
        case _S.SUCCEEDED:
            return "finished"
        case _S.FAILED | _S.DECLINED:
            return "errored"
        case _S.CANCELED:
            return "canceled"
        case _S.PROCESSING:
            return "running"
        case _:
            return "queued"


def is_confirmable(seen: SeenRun) -> bool:
    return status(seen) in ("planned", "planned_and_saved")


def is_cancelable(seen: SeenRun) -> bool:
    return not (seen.applying or seen.job).is_terminal


def is_changing_step(step: int) -> bool:
    """Return whether the lines of a step stand in the log of the apply."""
    return step >= Step.APPLY.number


class PlanCounts(NamedTuple):
    """How many resources a plan adds, changes, destroys and imports. A replacement adds one and destroys one."""

    additions: int = 0
    changes: int = 0
    destructions: int = 0
    imports: int = 0


def counts(plan: PlanSummary | None) -> PlanCounts:
    if plan is None:
        return PlanCounts()
    return PlanCounts(plan.add + plan.replace, plan.change, plan.destroy + plan.replace, plan.imports)


def taken_by(plan: Plan | None) -> str:
    """Return the id of the job that applies the plan of a PLAN; empty if none does."""
    return "" if plan is None else plan.taken_by
