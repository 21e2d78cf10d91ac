"""What executors deliver: each numbered event is stored once, in order, in one transaction with moving the mark (rules 2, 3, 5)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from terracrew.api.jobs import Attempt, Job, JobRetry, Plan, plain
from terracrew.errors import Conflict, Forbidden, NotFound, TerracrewError
from terracrew.protocol import events
from terracrew.protocol.events import Fact, Kind, Record
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import JobType, Step
from terracrew.server.announcements import service as announcements
from terracrew.server.audit import service as audit
from terracrew.server.audit import store as audit_store
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.topics import log_of
from terracrew.server.history.points import History
from terracrew.server.jobs import attempt_store, decide, module_outputs, news, store
from terracrew.server.jobs import metrics as counts
from terracrew.server.jobs.attempts import received_states
from terracrew.server.jobs.plans import diff_store as diffs
from terracrew.server.jobs.plans import json_store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.jobs.plans.diff_store import StoredDiff
from terracrew.server.jobs.plans.json_store import StoredPlanJson
from terracrew.server.logs import chunks
from terracrew.server.logs import store as log_store
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import service as states
from terracrew.server.state.model import LargeOutputs, Received
from terracrew.server.tree.modules import reads as modules

MAX_NOTES = 10
"""The most notes about late events of one attempt that are stored."""
_NO_EVENT = 0
"""The number of a note that is not about one event. Events begin at 1, so there is one such note for each attempt."""


class Delivery(msgspec.Struct, frozen=True):
    """A run of events of one attempt, with the states among them already stored or encrypted for their row."""

    job_id: str
    attempt: int
    first: int
    records: list[Record]
    received: dict[int, Received]
    chunk: chunks.Chunk | None
    outputs: dict[int, LargeOutputs] = {}
    """Outputs that came by HTTP, by the numbers of their events."""
    address: str | None = None
    """The address of the executor."""
    diffs: dict[int, LargeOutputs] = {}
    """Diffs and the JSON of plans that came by HTTP, by the numbers of their events."""
    facts: dict[int, Fact] = {}
    """The facts that were decoded already, by the numbers of their events."""


Ingest = Callable[[Delivery], Awaitable[int]]
"""Returns the mark: the number of the last event that is stored."""


class _Change:
    """The work on one delivery: the current rows, the new rows, and what else to write."""

    def __init__(
        self,
        delivery: Delivery,
        job: Job,
        attempt: Attempt,
        now: datetime,
        late_delivery: timedelta,
        *,
        has_own_backend: bool,
        max_log_bytes: int,
    ) -> None:
        last = delivery.first + len(delivery.records) - 1
        if last > attempt.mark and (why := decide.refusal_of_events(attempt, now, late_delivery)):
            raise Forbidden(f"nothing more is accepted from attempt {attempt.number} of job {job.number}: {why}")
        if delivery.first > attempt.mark + 1:
            raise Conflict(f"event {attempt.mark + 1} is missing: the next one delivered is {delivery.first}")
        self.delivery, self.now, self._has_own_backend = delivery, now, has_own_backend
        self.was_job, self.was_attempt = job, attempt
        self.job: Job = job
        self.attempt: Attempt = attempt
        self.steps: dict[str, attempt_store.SavedStep] = {}
        self.notes: list[tuple[int, str]] = []
        self.outputs: events.OutputsRead | None = None
        self.outputs_object: str | None = None
        self.plan: Plan | None = None
        self.diff: StoredDiff | None = None
        self.plan_json: StoredPlanJson | None = None
        self.states: list[tuple[int, Received, Job, Attempt]] = []
        new = list(enumerate(delivery.records, delivery.first))[attempt.mark + 1 - delivery.first :]
        self.chunk = delivery.chunk if len(new) == len(delivery.records) else chunks.pack(new)
        mark = attempt.mark
        for number, record in new:
            if record.kind == Kind.FACT:
                self._take(number, record)
            elif record.kind == Kind.STATE:
                if number not in delivery.received:
                    break  # its object is not stored yet: the mark does not pass it
                self._state(number, delivery.received[number])
            mark = number
            if self.attempt.has_result:
                break  # it is the last event: later events are refused when they are sent again
        received_at = now if mark > attempt.mark else attempt.received_at
        self.attempt = msgspec.structs.replace(self.attempt, mark=mark, received_at=received_at)
        if self.chunk is not None:
            if self.chunk.last > self.attempt.mark:
                self.chunk = chunks.pack([(n, r) for n, r in new if n <= self.attempt.mark])
            if self.chunk and max_log_bytes and attempt.log_bytes + self.chunk.size > max_log_bytes:
                self._cut_log([(n, r) for n, r in new if n <= self.attempt.mark and r.kind == Kind.LOG], max_log_bytes)
            elif self.chunk:
                self.attempt = msgspec.structs.replace(self.attempt, log_bytes=attempt.log_bytes + self.chunk.size)
            self.attempt = msgspec.structs.replace(
                self.attempt, lines=self.attempt.lines + (self.chunk.lines if self.chunk else 0)
            )

    @property
    def is_end_of_change(self) -> bool:
        """Whether it has the result of an attempt that may have changed something."""
        return self.attempt.has_result and not self.was_attempt.has_result and self.attempt.may_have_changed

    def _cut_log(self, logs: Sequence[tuple[int, Record]], max_bytes: int) -> None:
        """Leave out what exceeds the limit of the log. The first record that is left out becomes the line that says so."""
        kept: list[tuple[int, Record]] = []
        size = self.attempt.log_bytes
        if size <= max_bytes:
            for number, record in logs:
                size += chunks.stored_size(record)
                if size > max_bytes:
                    kept.append((number, record._replace(payload=_cut_line(max_bytes))))
                    break
                kept.append((number, record))
        self.chunk = chunks.pack(kept)
        self.attempt = msgspec.structs.replace(self.attempt, log_bytes=max_bytes + 1, is_output_missing=True)

    def _state(self, number: int, received: Received) -> None:
        if self._has_own_backend and received.fact.origin == "errored" and not received.problem:
            received = msgspec.structs.replace(received, problem=events.NOT_IN_OWN_BACKEND)
        # With the attempt as it is before this event, which says whether the state may become the current one.
        self.states.append((number, received, self.job, self.attempt))
        # An unreadable state counts as a missing one, and so does one that the module's own backend does not have: nothing that
        # the next plan reads records what the engine has created since the last state.
        is_unreadable = bool(received.problem)
        # An engine writes an errored state when it ends and cannot save its state, so this one tells that it has ended.
        is_ended = self.attempt.is_change_ended or received.fact.origin == "errored"
        self.attempt = msgspec.structs.replace(
            self.attempt, has_unreadable_state=is_unreadable, is_change_ended=is_ended and not is_unreadable
        )

    def _take(self, number: int, record: Record) -> None:
        try:
            fact = self.delivery.facts.get(number) or events.fact_of(record)
        except ValueError as error:
            # If it were refused, the executor would send it again forever, and never what follows it, such as the result.
            self._note(number, f"event {number} cannot be read, and was passed over: {str(error)[:200]}")
            return
        is_current = decide.is_current(self.job, self.attempt)
        if started := decide.start(self.job, self.attempt, self.now):
            self.job, self.attempt = started.job, started.attempt
        match fact:
            case events.StepStatus():
                self._step(fact, record.time)
                if is_current and (retry := _retry(fact, self.now, self.job.retry)) != self.job.retry:
                    self._facts(retry=retry)
            case events.Result():
                self._end(number, fact, is_current=is_current)
            case events.OutputsRead() if is_current and events.is_deep(fact):
                self._note(
                    number,
                    f"its outputs are nested more than {events.MAX_OUTPUT_LEVELS} levels deep, and were not kept",
                )
            case events.OutputsRead() if is_current and not fact.is_inline:
                self._large_outputs(number, fact)
            case events.OutputsRead() if is_current:
                self.outputs, self.outputs_object = fact, None
            case events.SourceResolved() if is_current:
                self._facts(
                    source_digest=plain(fact.digest),
                    source_description=plain(fact.description),
                    source_commit=plain(fact.commit),
                    source_revision=plain(fact.revision),
                    source_moved_from=plain(fact.moved_from),
                )
            case events.EngineUsed() if is_current:
                self._facts(engine_version=plain(fact.version))
            case events.PlanSummary() if is_current:
                self._facts(plan=fact, cost=None)
            case events.PlanCost() if is_current:
                self._facts(cost=fact)
            case events.PlanDescribed() if is_current:
                self._diff(number, fact)
            case events.PlanShown() if is_current:
                self._plan_json(number, fact)
            case events.OutputMissing():
                self.attempt = msgspec.structs.replace(self.attempt, is_output_missing=True)
            case _:
                pass

    def _large_outputs(self, number: int, fact: events.OutputsRead) -> None:
        found = self.delivery.outputs.get(number)
        if found is None or found.problem:
            why = "they did not come" if found is None else found.problem
            self._note(number, f"its outputs were not kept: {why}")
        else:
            self.outputs, self.outputs_object = fact, found.object

    def _diff(self, number: int, fact: events.PlanDescribed) -> None:
        stored = StoredDiff(self.job.id, self.attempt.number, self.job.module_id, fact.sha256)
        large = self.delivery.diffs.get(number)
        if fact.content:
            self.diff = msgspec.structs.replace(stored, content=fact.content)
        elif large is not None and not large.problem:
            self.diff = msgspec.structs.replace(stored, object=large.object)
        else:
            why = "it did not come" if large is None else large.problem
            self._note(number, f"the diff of its plan was not kept: {why}")

    def _plan_json(self, number: int, fact: events.PlanShown) -> None:
        stored = StoredPlanJson(
            self.job.id,
            self.attempt.number,
            self.job.module_id,
            fact.sha256,
            plan_sha256=fact.plan_sha256,
            awaits_policies=self.job.type is JobType.PLAN,
        )
        large = self.delivery.diffs.get(number)
        if fact.content:
            self.plan_json = msgspec.structs.replace(stored, content=fact.content)
        elif large is not None and not large.problem:
            self.plan_json = msgspec.structs.replace(stored, object=large.object)
        else:
            why = "it did not come" if large is None else large.problem
            self._note(number, f"the JSON of its plan was not kept: {why}")

    def _end(self, number: int, result: events.Result, *, is_current: bool) -> None:
        ended = None
        if result.kept and result.status == "WAITING":
            ended = decide.wait(self.job, self.attempt, result.kept, self.now, result.message)
        if ended := ended or decide.finish(self.job, self.attempt, result, self.now):
            self.job, self.attempt, self.plan = ended.job, ended.attempt, ended.plan
        is_denied = self.job.failure_kind == "policy" and self.job.attempt == self.attempt.number
        if not is_current and not is_denied:  # what a policy has stopped has nothing else to report
            self._note(number, f"reported {result.status} too late: {result.message}".rstrip(": "))

    def _note(self, number: int, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append((number, plain(text)))

    def _facts(self, **facts: Any) -> None:
        self.job = msgspec.structs.replace(self.job, **facts)

    def _step(self, fact: events.StepStatus, time: float) -> None:
        if decide.ends_change(fact) and not self.attempt.has_unreadable_state:
            self.attempt = msgspec.structs.replace(self.attempt, is_change_ended=True)
        elif decide.leaves_change_open(fact):  # an errored state has come before this
            self.attempt = msgspec.structs.replace(self.attempt, is_change_ended=False)
        is_running = fact.status == "RUNNING"
        name, ended = fact.step.value, None if is_running else time
        started = time if is_running else self.steps[name].started_at if name in self.steps else None
        number = self.attempt.number
        self.steps[name] = attempt_store.SavedStep(
            self.job.id, name, fact.status, started, ended, fact.exit_code, number, fact.kept_from
        )


def _retry(fact: events.StepStatus, now: datetime, was: JobRetry | None) -> JobRetry | None:
    """Return the repetition that the job waits for or is in, after a step has changed its status."""
    if fact.retry is not None:
        at = now + timedelta(seconds=fact.retry.seconds)
        return JobRetry(fact.step, fact.retry.number, fact.retry.tries, at, plain(fact.retry.reason))
    return was if fact.status == "RUNNING" and was is not None and was.step == fact.step else None


def _cut_line(max_bytes: int) -> bytes:
    return (
        f"\nThe rest of this log is not stored, because it has reached {max_bytes // 1_000_000:,} MB "
        "(max_log_megabytes_per_attempt in the server's settings). The job continues.\n"
    ).encode()


def ingest(
    db: Database,
    keys: Keyring,
    history: History,
    late_delivery: timedelta = decide.LATE_DELIVERY,
    *,
    max_log_bytes: int = 0,
) -> Ingest:
    """Return the function that stores deliveries. Of the log of an attempt, it stores `max_log_bytes`, or all of it if that is 0."""

    async def work(tx: Tx, deliveries: list[Delivery]) -> list[int | Exception]:
        results, changes = await _work_out(tx, deliveries, late_delivery, max_log_bytes)
        await _write(tx, changes, keys)
        for change in changes:
            if change.is_end_of_change:
                await history.add(tx, change.job.module_id, AttemptRef(change.job.id, change.attempt.number))
        return results

    return db.grouped(work)


async def _work_out(
    tx: Tx, deliveries: list[Delivery], late_delivery: timedelta, max_log_bytes: int
) -> tuple[list[int | Exception], list[_Change]]:
    known = await store.reporting(tx, ((delivery.job_id, delivery.attempt) for delivery in deliveries))
    errored = [each.job_id for each in deliveries if _has_errored_state(each)]
    has_own_backend = await _jobs_with_own_backends(tx, known, errored) if errored else set[str]()
    results: list[int | Exception] = []
    changes: list[_Change] = []
    now = tx.moment
    for delivery in deliveries:
        found = known.get((delivery.job_id, delivery.attempt))
        try:
            if found is None:
                raise NotFound(f"there is no attempt {delivery.attempt} of {delivery.job_id} any more")
            is_own = delivery.job_id in has_own_backend
            change = _Change(delivery, *found, now, late_delivery, has_own_backend=is_own, max_log_bytes=max_log_bytes)
        except (TerracrewError, ValueError) as error:
            results.append(error)
        else:
            changes.append(change)
            results.append(change.attempt.mark)
    changes.sort(key=lambda change: change.job.id)
    return results, changes


def _has_errored_state(delivery: Delivery) -> bool:
    return any(each.fact.origin == "errored" for each in delivery.received.values())


async def _jobs_with_own_backends(
    tx: Tx, known: Mapping[tuple[str, int], tuple[Job, Attempt]], job_ids: Sequence[str]
) -> set[str]:
    """Return those of these jobs whose modules keep their state in a backend of their own."""
    module_of = {job.id: job.module_id for job, _ in known.values() if job.id in job_ids}
    found = await modules.with_own_backends(tx, module_of.values())
    return {job_id for job_id, module_id in module_of.items() if module_id in found}


async def _write(tx: Tx, changes: Sequence[_Change], keys: Keyring) -> None:
    found = [
        log_store.ChunkRow(
            **msgspec.structs.asdict(change.chunk),
            job_id=change.job.id,
            attempt=change.attempt.number,
            first_line=change.was_attempt.lines,
        )
        for change in changes
        if change.chunk
    ]
    if found:
        await log_store.insert_chunks(tx, found)
    if steps := [step for change in changes for step in change.steps.values()]:
        await attempt_store.save_steps(tx, steps)
    moved = [(change.was_attempt, change.attempt) for change in changes if change.attempt != change.was_attempt]
    await attempt_store.save_progress(tx, moved)
    transitions = [store.Transition(change.was_job, change.job) for change in changes if change.job != change.was_job]
    await store.save_transitions(tx, transitions, is_own_report=True)
    for change in changes:
        tx.on_commit(partial(_count, change))
        if decide.returns_doubts(change.was_attempt, change.attempt):
            await store.return_doubts(tx, change.job.module_id, change.attempt)
        if (announced := news.of_attempt(change.job, change.was_attempt, change.attempt)) is not None:
            await announcements.announce(tx, announced)
        if change.was_attempt.ended_at is not None and change.attempt.mark > change.was_attempt.mark:
            await _audit_late_delivery(tx, change)
        for number, text in change.notes:
            await attempt_store.note(tx, change.job.id, change.attempt.number, number, text, most=MAX_NOTES)
        for number, received, job, attempt in change.states:
            if not await received_states.receive(tx, job, attempt, number, received, change.delivery.address):
                await _note_unreadable(tx, change)
        if change.plan is not None:
            await plan_store.save(tx, change.plan)
        if change.diff is not None:
            await diffs.keep(tx, change.diff, keys)
        if change.plan_json is not None:
            await json_store.keep(tx, change.plan_json, keys)
        if change.outputs is not None:
            if change.outputs_object is None:
                await module_outputs.trigger(tx, keys, change.job, change.outputs)
            await states.keep_outputs(
                tx, change.job.module_id, change.job.id, change.outputs, keys, change.outputs_object
            )
        if change.chunk is not None:
            tx.wake(log_of(change.job.id))
        if change.steps or change.notes or change.diff:
            tx.wake("jobs", change.job.id)
        if change.job.type is JobType.PLAN and change.job.is_terminal and not change.was_job.is_terminal:
            tx.wake("plan_verdicts")


async def _note_unreadable(tx: Tx, change: _Change) -> None:
    """Note once for each attempt that some of its states were not stored."""
    text = f"more than {received_states.MAX_UNREADABLE} of its states cannot be read: those after that were not kept"
    await attempt_store.note(tx, change.job.id, change.attempt.number, _NO_EVENT, text, most=MAX_NOTES + 1)


def _count(change: _Change) -> None:
    counts.delivered(change.attempt.mark - change.was_attempt.mark, change.chunk.size if change.chunk else 0)
    counts.attempt_moved(change.was_attempt, change.attempt)
    if (init := change.steps.get(Step.INIT)) is not None:
        counts.init_ended(init.status, is_kept=init.kept_from is not None)


async def _audit_late_delivery(tx: Tx, change: _Change) -> None:
    """Record once that a lost or fenced attempt has delivered something: it can become the module's state."""
    action, target = "attempt.deliver_late", f"{change.job.id}.{change.attempt.number}"
    if not await audit_store.has(tx, action, target):
        details = {"job": change.job.number, "outcome": change.attempt.outcome, "runner": change.attempt.runner_id}
        organization_id = change.job.organization_id
        by = msgspec.structs.replace(SYSTEM, address=change.delivery.address)
        await audit.record(tx, by, action, "attempt", target, details, organization_id=organization_id)
