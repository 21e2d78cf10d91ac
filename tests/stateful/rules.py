"""The rules that must never break, looked at in the database, from one moment to the next."""

from collections import Counter
from collections.abc import Container

import msgspec

from terracrew.api.jobs import CHOSEN, TRANSITIONS, Attempt, Job, JobStatus
from terracrew.api.states import State
from terracrew.protocol import events
from terracrew.protocol.events import Kind
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database
from terracrew.server.jobs.queue_reads import turn_in_module
from terracrew.server.logs import chunks
from tests.stateful.faulty_database import patient
from tests.stateful.simulated_outbox import facts
from tests.stateful.simulated_runners import SimulatedRunners
from tests.stateful.snapshot import Snapshot

FINAL = ("outcome", "ended_at", "begun_at", "begun_state_version", "started_at", "lost_at")
"""Of an attempt that has ended. Its mark still moves: what it delivers is kept. Its reason may grow by what its runner knows."""


def check(was: Snapshot, now: Snapshot, *, by_people: Container[str]) -> None:
    """`by_people`: states that a person has just adopted, or tried to."""
    one_owner(was, now)
    superseded_changes_nothing(was, now)
    terminal_is_terminal(was, now)
    states_are_earned(was, now, by_people)
    plans_are_used_once(was, now)
    nobody_is_stuck(now)
    the_lock_follows_the_attempt(was, now)
    claimed_in_order(was, now)
    applied_in_order(was, now)
    each_end_is_counted_once(now)


def each_end_is_counted_once(now: Snapshot) -> None:
    """The figures say what a scan of all jobs finds."""
    assert now.counted == dict(Counter(job.status.value for job in now.jobs.values() if job.is_terminal))


# ---- rule 1


def one_owner(was: Snapshot, now: Snapshot) -> None:
    active = Counter(job.module_id for job in now.jobs.values() if job.is_active)
    assert not active or max(active.values()) == 1, "two jobs of one module are active"
    for job in now.jobs.values():
        ref = AttemptRef(job.id, job.attempt)
        if job.is_active:
            owner = now.attempts[ref]
            assert (owner.runner_id, owner.instance_id) == (job.runner_id, job.instance_id), f"{ref} has two owners"
        before = was.jobs.get(job.id)
        if before is not None:
            assert job.attempt >= before.attempt, f"the attempt number of {job.id} fell"
            if before.is_active and job.is_active and before.instance_id != job.instance_id:
                assert job.attempt > before.attempt, f"{ref} has another owner under the same number"
    for ref, attempt in now.attempts.items():
        assert attempt.number <= now.jobs[attempt.job_id].attempt
        before_attempt = was.attempts.get(ref)
        if before_attempt is not None:
            fixed = ("runner_id", "instance_id", "claimed_at", "inputs_sha256")
            assert _fields(attempt, *fixed) == _fields(before_attempt, *fixed), f"{ref} was claimed twice"


def _fields(value: Attempt | Job, *names: str) -> list[object]:
    return [getattr(value, name) for name in names]


# ---- rules 2 and 5


def superseded_changes_nothing(was: Snapshot, now: Snapshot) -> None:
    for ref, before in was.attempts.items():
        if before.ended_at is not None:
            after = now.attempts[ref]
            assert _fields(after, *FINAL) == _fields(before, *FINAL), f"{ref} had ended, and ended again"
            assert after.reason.startswith(before.reason), f"{ref} had ended, and its reason was replaced"
            assert now.attempts[ref].is_gone or not before.is_gone, f"{ref} was gone, and is back"
    for job in now.jobs.values():
        speaks = f"{job.number}.{job.attempt}"
        assert job.engine_version in ("", speaks), f"{job.engine_version} wrote the engine of {speaks}"
        if job.plan is not None:
            planners = {speaks, f"{job.number}.{job.plan_attempt}"}
            if job.plan_job_id is not None and job.plan_attempt == CHOSEN:
                chosen = now.plans[job.id, CHOSEN]
                planners = {f"{now.jobs[chosen.made_job_id].number}.{chosen.made_attempt}"}
            assert job.plan.outputs["by"] in planners, f"{job.plan.outputs['by']} wrote the plan of {speaks}"
        before_job = was.jobs.get(job.id)
        said = job.source_digest
        if before_job is not None and said != before_job.source_digest:
            _was_current(was, now, job, said)
        if (said := now.outputs.get(job.id, "")) != was.outputs.get(job.id, ""):
            _was_current(was, now, job, said.replace("x", "."))
        if job.message.startswith("said by"):
            assert job.message == f"said by {speaks}"


def _was_current(was: Snapshot, now: Snapshot, job: Job, name: str) -> None:
    """What only a current attempt writes; it may have been claimed, or have ended, in this very step."""
    number = int(name.partition(".")[2])
    ref = AttemptRef(job.id, number)
    before = was.attempts.get(ref)
    assert before is None or was.is_current(ref), f"{ref} was superseded and wrote to the job"
    assert name.startswith(f"{job.number}."), f"{name} wrote to job {job.number}"
    assert ref in now.attempts


def terminal_is_terminal(was: Snapshot, now: Snapshot) -> None:
    for job_id, before in was.jobs.items():
        job = now.jobs[job_id]
        if before.is_terminal:
            assert job == before, f"job {job.number} was {before.status}, and has changed"
        if job.status != before.status:
            assert _reachable(before.status, job.status), f"{before.status} became {job.status}"
        if job.is_terminal:
            ended = now.attempts.get(AttemptRef(job_id, job.attempt))
            assert ended is None or ended.ended_at is not None, f"job {job.number} is over, its attempt is not"
            if job.status is JobStatus.SUCCEEDED:
                assert ended is not None
                assert ended.outcome == "succeeded"


def _reachable(start: JobStatus, end: JobStatus) -> bool:
    """Tell whether `end` can be reached from `start`; one step may contain several changes."""
    seen, todo = set[JobStatus](), {start}
    while todo:
        seen |= todo
        todo = {after for status in todo for after in TRANSITIONS[status]} - seen
    return end in seen


# ---- states: rules 2, 3 and 7


def states_are_earned(was: Snapshot, now: Snapshot, by_people: Container[str]) -> None:
    for module_id, version in now.modules.items():
        before, current = was.current(module_id), now.current(module_id)
        assert version >= was.modules.get(module_id, 0)
        assert current is None or current.version == version, "the newest version is not the current one"
        versions = sorted(state.version for state in now.of_module(module_id) if state.version is not None)
        assert versions == list(range(1, version + 1)), "a version is missing"
        if current is not None and (before is None or before.id != current.id):
            _earned(was, now, current, before, by_people)
    for state_id, before_state in was.states.items():
        state = now.states[state_id]
        assert msgspec.structs.replace(state, status="current", version=0) == msgspec.structs.replace(
            before_state, status="current", version=0
        ), "a state that was stored is another one now"
        allowed = {"current": {"superseded"}, "quarantined": {"current", "superseded", "discarded"}}
        if state.status != before_state.status:
            assert state.status in allowed.get(before_state.status, set())


def _earned(was: Snapshot, now: Snapshot, current: State, before: State | None, by_people: Container[str]) -> None:
    ref, module_id = AttemptRef(current.job_id, current.attempt), current.module_id
    attempt = now.attempts[ref]
    if current.id in by_people:
        assert not any(job.is_active and job.module_id == module_id for job in was.jobs.values()), "it was locked"
        return
    assert attempt.begun_at is not None, f"{ref} never had a permit to write a state"
    assert before is None or current.lineage == before.lineage, f"{ref} is of another lineage"
    if ref not in was.attempts or was.is_current(ref):
        return
    assert before is None or current.serial > before.serial, f"{ref} is older than what is current"
    assert not was.mutating(module_id), f"{ref} was adopted while another was between its begin and its end"
    assert not was.quarantined(module_id), f"{ref} was adopted past a state in quarantine"
    is_own = before is not None and (before.job_id, before.attempt) == (ref.job_id, ref.attempt)
    assert is_own or attempt.begun_state_version == was.modules[module_id], f"somebody wrote after {ref} had begun"


# ---- rules 4 and 6


def plans_are_used_once(was: Snapshot, now: Snapshot) -> None:
    for key, before in was.plans.items():
        plan = now.plans[key]
        if before.applied_by is not None:
            assert plan == before, f"the plan of {key} was used, and has changed"
        if before.decision is None and plan.decision == "approved":
            version = was.modules[now.jobs[plan.job_id].module_id]
            assert plan.state_version >= version, f"the plan of {key} was stale, and was approved"
        if before.decision is not None:
            assert (plan.decision, plan.decided_at) == (before.decision, before.decided_at), "decided twice"
    makers = Counter(
        (plan.made_job_id, plan.made_attempt) for plan in now.plans.values() if plan.applied_by is not None
    )
    assert not [maker for maker, count in makers.items() if count > 1], "a plan was used by two jobs"
    for plan in now.plans.values():
        if plan.is_chosen:
            source = now.plans[plan.made_job_id, plan.made_attempt]
            assert source.taken_by == plan.job_id, f"{plan.job_id} has a plan that {source.taken_by} has taken"
            modules = {now.jobs[each].module_id for each in (plan.job_id, plan.made_job_id)}
            assert len(modules) == 1, f"{plan.job_id} applies the plan of another module"
        if plan.applied_by is not None:
            attempt = now.attempts[AttemptRef(plan.job_id, plan.applied_by)]
            assert attempt.begun_at is not None, f"{plan.job_id}.{plan.applied_by} had begun with a kept plan"


def nobody_is_stuck(now: Snapshot) -> None:
    for job in now.jobs.values():
        if now.reasons and job.status in (JobStatus.QUEUED, JobStatus.AWAITING_APPROVAL):
            reason = now.reasons[job.id]
            assert reason is not None, f"job {job.number} waits ({job.status}) and nobody knows why"
            assert reason.code
            assert reason.text


# ---- rule 7


def the_lock_follows_the_attempt(was: Snapshot, now: Snapshot) -> None:
    for ref, attempt in now.attempts.items():
        if attempt.ended_at is None:
            assert now.is_current(ref), f"{ref} has not ended, and its job is {now.jobs[ref.job_id].status}"
        assert not (attempt.is_in_doubt and (attempt.ended_at is None or attempt.begun_at is None))
        before = was.attempts.get(ref)
        if before is not None and before.begun_at is not None:
            assert attempt.begun_at == before.begun_at, f"{ref} had begun"
            if before.ended_at is None and attempt.ended_at is not None:
                _ended_after_begin(ref, attempt)
    for job in now.jobs.values():
        if job.is_active:
            assert now.is_current(AttemptRef(job.id, job.attempt)), f"job {job.number} is held by nobody"


def _ended_after_begin(ref: AttemptRef, attempt: Attempt) -> None:
    """Tell whether the attempt ended by its own report, by the report of its runner, or by a fence that leaves the module in doubt."""
    if attempt.outcome == "lost":
        assert attempt.is_in_doubt or attempt.is_gone, f"{ref} was fenced, and its module is not in doubt"
    else:
        assert attempt.outcome in ("succeeded", "failed", "canceled", "gone"), f"{ref} had begun: {attempt.outcome}"


def canceled_by_a_person(now: Snapshot, canceled: Container[str]) -> None:
    """A job ends CANCELED only if a person has canceled it."""
    for job in now.jobs.values():
        assert job.status is not JobStatus.CANCELED or job.id in canceled, f"nobody has canceled job {job.number}"


def nothing_after_a_result(crew: SimulatedRunners, now: Snapshot) -> None:
    """A result is the last event of an attempt that is accepted."""
    for ref, executor in crew.executors.items():
        if now.attempts[ref].has_result:
            assert now.attempts[ref].mark == executor.result, f"something of {ref} was accepted after its result"


def gone_is_gone(crew: SimulatedRunners, now: Snapshot) -> None:
    for ref, executor in crew.executors.items():
        assert not (executor.is_mutating and now.attempts[ref].is_gone), f"{ref} is said to be gone, and changes things"


# ---- rule 11


def claimed_in_order(was: Snapshot, now: Snapshot) -> None:
    """No job is claimed while another one of its module waits that comes first. Each return to the queue is a new attempt."""
    waiting = [job for job in now.jobs.values() if job.status is JobStatus.QUEUED and was.jobs.get(job.id) == job]
    for ref in now.attempts.keys() - was.attempts.keys():
        job = now.jobs[ref.job_id]
        before = [other for other in waiting if other.module_id == job.module_id and other.id != job.id]
        for other in before:
            assert turn_in_module(job) < turn_in_module(other), f"{ref} was claimed before job {other.number}"


def applied_in_order(was: Snapshot, now: Snapshot) -> None:
    """A job begins to change its module after a later one only with a plan that a person has approved."""
    for ref, attempt in now.attempts.items():
        before, job = was.attempts.get(ref), now.jobs[ref.job_id]
        if attempt.begun_at is None or (before is not None and before.begun_at is not None):
            continue
        begun = [was.jobs[other.job_id] for other in was.attempts.values() if other.begun_at is not None]
        later = [other.number for other in begun if other.module_id == job.module_id and other.number > job.number]
        is_approved = any(
            plan.job_id == job.id and plan.applied_by == attempt.number and plan.decision == "approved"
            for plan in now.plans.values()
        )
        assert not later or is_approved, f"{ref} began after the later jobs {later}, and nobody was asked"


# ---- rule 3


async def nothing_is_lost(db: Database, crew: SimulatedRunners, was: Snapshot, now: Snapshot) -> None:
    """Every acknowledged event is stored once, in order; the mark passes no state that is not stored."""
    for ref, executor in crew.executors.items():
        attempt, before = now.attempts[ref], was.attempts.get(ref)
        assert executor.acked <= attempt.mark <= len(executor.outbox), f"{ref} has {attempt.mark} of its events"
        assert before is None or before.mark <= attempt.mark
        emitted = facts(executor.outbox)[: attempt.mark]
        told = {number: events.state_of(record)[0] for number, record in emitted if record.kind == Kind.STATE}
        stored = {s.event: s for s in now.states.values() if (s.job_id, s.attempt) == (ref.job_id, ref.attempt)}
        assert stored.keys() == told.keys(), f"of {ref}, states {sorted(told)} were taken, {sorted(stored)} are stored"
        for number, fact in told.items():
            state = stored[number]
            assert (state.serial, state.lineage, state.sha256) == (fact.serial, fact.lineage, fact.sha256)
        if before is None or before.mark != attempt.mark:
            await _log_is_whole(db, ref, [(n, record) for n, record in emitted if record.kind == Kind.LOG])


async def _log_is_whole(db: Database, ref: AttemptRef, emitted: list[tuple[int, events.Record]]) -> None:
    stored_in = "SELECT data FROM log_chunks WHERE job_id = :id AND attempt = :n ORDER BY first"
    rows = await patient(lambda: db.read(lambda tx: tx.all(stored_in, id=ref.job_id, n=ref.attempt)))
    stored = [(number, record) for row in rows for number, record in chunks.records(bytes(row["data"]))]
    assert stored == emitted, f"the log of {ref} is not what was emitted"
