"""Decides what a look at a pull request, and the ends of its jobs, change of the modules that it touches. All functions are pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from terracrew.api.jobs import Job, JobStatus
from terracrew.api.pull_requests import PlanState, PullRequestApply, PullRequestState
from terracrew.server.pull_requests.looking import SourceLook
from terracrew.server.pull_requests.model import TouchedModule
from terracrew.server.pull_requests.reporting import MAX_RESOURCES
from terracrew.wording import cost_words, plan_words

MAX_WRITES_PER_MINUTE = 10
"""How many statuses and comments one pull request may have written in a minute."""
MAX_UNFINISHED_WRITES = 6
"""How many there may have been for one more that says that something is not finished, so that the result is shown without delay."""
PLANNED: frozenset[PlanState] = frozenset({"changes", "no_changes"})
"""The states of a plan that says what an apply would do."""
OPEN: frozenset[PlanState] = frozenset({"waiting", "running", "stale"})
"""The states in which a plan is still to come."""
GONE = "its folder is removed: nothing is planned, and nothing is destroyed"
_APPLIED: frozenset[PlanState] = frozenset({"applying", "needs_approval", "applied", "apply_failed"})


class ModuleChanges(msgspec.Struct, frozen=True):
    """What a look changes."""

    put: list[TouchedModule]
    removed: list[str]
    """The ids of the modules that are not touched any more."""
    superseded: list[str]
    """The ids of jobs that are not wanted any more."""


def after_look(pull_request_id: str, known: Iterable[TouchedModule], look: SourceLook, now: datetime) -> ModuleChanges:
    """Compare what a look has found with what is known.

    A plan stays as long as the newest commit and the files of its module stay. With another commit it is made again even if these
    files are the same: an engine can read every file of the repository, so only the commit says what a plan was made from, and what
    people have looked at.
    """
    before = {each.module_id: each for each in known}
    if (
        not look.commit
    ):  # nothing is known of the files: the rows stay, and only what another commit was to do is given up
        old = [each for each in before.values() if each.head_commit != look.head]
        return ModuleChanges([], [], [job_id for each in old for job_id in _jobs_of(each)])
    put: list[TouchedModule] = []
    superseded: list[str] = []
    # What was applied and is taken back by a newer commit has to be planned, too.
    applied = {each.module_id for each in before.values() if each.state in _APPLIED or _kept_status(each)}
    wanted = {each: look.digests[each] for each in look.digests if each in look.touched or each in applied}
    for module_id, digest in wanted.items():
        old = before.get(module_id)
        if old is not None and (old.digest, old.head_commit) == (digest, look.head):
            continue
        if old is not None:
            superseded += _jobs_of(old)
        state: PlanState = "waiting" if digest else "no_changes"
        put.append(
            TouchedModule(
                pull_request_id=pull_request_id,
                module_id=module_id,
                digest=digest,
                head_commit=look.head,
                base_commit=look.base,
                state=state,
                reason="" if digest else GONE,
                apply_status=_kept_status(old),
                changed_at=now,
            )
        )
    gone = [each for each in before.values() if each.module_id not in wanted]
    superseded += [job_id for each in gone for job_id in _jobs_of(each)]
    return ModuleChanges(put, [each.module_id for each in gone], superseded)


def plan_again(row: TouchedModule, state: PlanState, reason: str, now: datetime) -> TouchedModule:
    """Return a module whose plan is made again from the same files."""
    return TouchedModule(
        pull_request_id=row.pull_request_id,
        module_id=row.module_id,
        digest=row.digest,
        head_commit=row.head_commit,
        base_commit=row.base_commit,
        state=state,
        reason=reason,
        is_on_merge=row.is_on_merge,
        apply_status=_kept_status(row),
        changed_at=now,
    )


def wants_plan(row: TouchedModule) -> bool:
    return row.plan_job_id is None and row.apply_job_id is None and row.state in OPEN


def _counts(job: Job) -> str:
    """Return what the plan of a job changes in figures, with the cost if that is known."""
    return " · ".join(filter(None, (plan_words.counts(job.plan), cost_words.summary(job.cost))))


def after_jobs(
    row: TouchedModule, plan: Job | None, apply: Job | None, plan_version: int | None, now: datetime
) -> TouchedModule:
    """Return a module as its jobs leave it. `plan_version`: the version of the state that its plan was made from, if that is known."""
    if row.apply_job_id is not None:
        status = row.apply_status if apply is None else str(apply.status)
        state, reason = ("apply_failed", "its job was deleted") if apply is None else _of_apply(apply)
        return _changed(replace(row, state=state, reason=reason, apply_status=status), row, now)
    is_decided = row.state == "apply_failed" or not row.digest  # after the merge, whatever its plan says
    if row.plan_job_id is None or is_decided:
        return row
    if plan is None:
        return _changed(replace(row, state="failed", reason="the job of its plan was deleted"), row, now)
    state, reason = _of_plan(plan)
    if state == "waiting":
        state, reason = (row.state, row.reason) if row.state in ("waiting", "stale") else ("waiting", "")
    after = replace(row, state=state, reason=reason, plan_status=str(plan.status))
    if state in PLANNED:
        resources = plan_words.in_order(plan.plan)
        after = replace(
            after,
            counts=_counts(plan) if state == "changes" else "",
            size=len(resources),
            resources=[f"{each.action:<8} {each.address}" for each in resources[:MAX_RESOURCES]],
            state_version=row.state_version if plan_version is None else plan_version,
        )
    return _changed(after, row, now)


def is_stale(row: TouchedModule, state_version: int, pull_request: PullRequestState) -> bool:
    """Return whether the state that a plan was made from has changed since, and somebody could still want the plan."""
    wanted = {"open": PLANNED, "merged": {"changes"}, "closed": frozenset[PlanState]()}[pull_request]
    return row.state in wanted and row.plan_job_id is not None and row.state_version != state_version


def write_wait(writes: Sequence[float], now: float, *, is_finished: bool) -> float:
    """Return after how many seconds the forge may be written to; 0 if it may be now."""
    recent = sorted(each for each in writes if each > now - 60)
    count = MAX_WRITES_PER_MINUTE if is_finished else MAX_UNFINISHED_WRITES
    return 0.0 if len(recent) < count else recent[len(recent) - count] + 60 - now


def strictest(rules: Iterable[PullRequestApply]) -> PullRequestApply:
    """Return how a pull request is applied as a whole: of several rules, the one that asks for most."""
    found = set(rules)
    for each in ("on_command_then_merge", "on_command", "on_merge"):
        if each in found:
            return each
    return "never"


def unsettled(rows: Iterable[TouchedModule]) -> list[TouchedModule]:
    """Return the modules of a merged pull request that its merge applies, and for which it is still to decide how."""
    return [
        each
        for each in rows
        if each.is_on_merge
        and each.apply_job_id is None
        and (each.state in ("changes", "failed", "canceled") or (each.state in OPEN and each.plan_job_id is None))
    ]


def is_ready_to_merge(rows: Iterable[TouchedModule], rules: Mapping[str, PullRequestApply]) -> bool:
    """Return whether everything was applied that had to be before the merge, and something was."""
    found = list(rows)
    applied = [each for each in found if _kept_status(each)]
    return (
        bool(applied)
        and all(each.state in ("applied", "no_changes") or is_left_to_others(each, rules) for each in found)
        and all(rules.get(each.module_id) == "on_command_then_merge" for each in applied)
    )


def is_left_to_others(row: TouchedModule, rules: Mapping[str, PullRequestApply]) -> bool:
    """Return whether a module has changes that no command applies: the merge does, or a person by hand."""
    return row.state == "changes" and rules.get(row.module_id, "never") in ("never", "on_merge")


def _kept_status(row: TouchedModule | None) -> str:
    """Return what remains known of an apply that succeeded when the module is planned again."""
    return str(JobStatus.SUCCEEDED) if row is not None and row.apply_status == JobStatus.SUCCEEDED else ""


def _jobs_of(row: TouchedModule) -> list[str]:
    return [each for each in (row.plan_job_id, row.apply_job_id) if each is not None]


def _of_plan(job: Job) -> tuple[PlanState, str]:
    match job.status:
        case JobStatus.CLAIMED | JobStatus.PROCESSING:
            return "running", ""
        case JobStatus.SUCCEEDED:
            return ("changes" if plan_words.has_changes(job.plan) else "no_changes"), ""
        case JobStatus.FAILED:
            return "failed", job.message
        case JobStatus.CANCELED | JobStatus.DECLINED:
            return "canceled", job.message
        case _:
            return "waiting", ""


def _of_apply(job: Job) -> tuple[PlanState, str]:
    match job.status:
        case JobStatus.AWAITING_APPROVAL:
            return "needs_approval", ""
        case JobStatus.SUCCEEDED:
            return "applied", ""
        case JobStatus.FAILED:
            return "apply_failed", job.message
        case JobStatus.CANCELED | JobStatus.DECLINED:
            return "apply_failed", job.message or f"job #{job.number} was {job.status.lower()}"
        case _:
            return "applying", ""


def _changed(after: TouchedModule, before: TouchedModule, now: datetime) -> TouchedModule:
    return after if after == before else replace(after, changed_at=now)
