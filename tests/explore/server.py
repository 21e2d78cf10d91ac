"""The server as the explorer sees it: like its services it loads, asks `decide`, and saves; it decides nothing by itself."""

from datetime import datetime

import msgspec

from terracrew.api import jobs as model
from terracrew.errors import Conflict
from terracrew.protocol.events import KeptPlan, Result, StepStatus
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step
from terracrew.server.jobs import decide
from terracrew.server.jobs.decision_types import Doubt
from terracrew.server.jobs.plans import decide_plan
from terracrew.server.jobs.queue_reads import turn_in_module
from terracrew.server.jobs.set_back import decisions
from tests.explore import rows, set_back
from tests.explore.rows import THIS_MOMENT, VERSIONS
from tests.explore.saving import Decision, Saving
from tests.explore.world import (
    ACTIVE,
    ANSWER,
    ASK,
    LOST_NUMBER,
    NEW,
    NO,
    NOW,
    ROW,
    UNKNOWN,
    UNSURE,
    Job,
    Plan,
    Try,
    World,
    has_changed,
    is_in_contact,
    is_refused,
    last_event,
    moved,
    with_job,
    with_runner,
    with_try,
)


class Server(Saving):
    """The sentences that a test switches off are methods of their own."""

    # ---- who is heard

    def is_in_contact(self, world: World, it: Try) -> bool:
        return is_in_contact(world, it)

    def hello(self, world: World, r: int) -> World:
        """A runner comes, tells the points that it knows, and names what it has."""
        world = with_runner(self.notice(world), r, link=True)
        for i, it in enumerate(world.tries):
            if it.runner != r or it.outcome:
                continue
            if it.known:
                world = self._hear(world, i)
            elif not it.link:
                world = self.settle(world, i, decide.missing, "", THIS_MOMENT) or world
        return world

    def executor_hello(self, world: World, i: int) -> World:
        if world.hold and has_changed(world.tries[i]):
            world = self.notice(world)
        if world.tries[i].may_have_begun or (world.hold and has_changed(world.tries[i])):
            world = self.recall(world, i)
        world = self._hear(with_try(world, i, link=True), i)
        return self.settle(world, i, decide.start, THIS_MOMENT) or world

    def _hear(self, world: World, i: int) -> World:
        return with_try(world, i, lost=2) if world.tries[i].lost == 1 else world

    def look(self, world: World, i: int) -> World | None:
        """The reaper's turn: lost, found again, or its lease is over."""
        it = world.tries[i]
        if not it.eyed and self.is_in_contact(world, it):
            return self.settle(world, i, self.lost, rows.HEARD, THIS_MOMENT, rows.LEASE) if it.lost else None
        if not it.eyed:
            world = self.eye(world, i)
        heard = rows.HEARD_SINCE_LOST if world.tries[i].eyed == 2 else rows.SILENT
        after = self.settle(with_try(world, i, eyed=0), i, self.lost, heard, THIS_MOMENT, rows.LEASE)
        return after or (with_try(world, i, eyed=0) if it.eyed else None)

    def eye(self, world: World, i: int) -> World:
        """It is silent for long enough. What the reaper makes of it may come a moment later."""
        return self.expire_permit(with_try(world, i, eyed=2 if world.tries[i].lost == 2 else 1), i)

    def expire_permit(self, world: World, i: int) -> World:
        """An attempt that was silent for so long has no request for a permit left that counts."""
        return with_try(world, i, mail=0)

    lost = staticmethod(decide.lost)

    def give_up(self, world: World, i: int) -> World | None:
        if self.is_in_contact(world, world.tries[i]):
            return None
        after = self.settle(world, i, decide.give_up, rows.SILENT, "somebody", THIS_MOMENT)
        return None if after is None else self.expire_permit(after, i)

    # ---- a database that was set back

    def notice(self, world: World) -> World:
        """Somebody knows a point that the database lacks."""
        return set_back.held(world, self.assume_begun) if world.hold == "unnoticed" else world

    def assume_begun(self, it: Try) -> Try:
        return it if it.outcome or it.begun != NO else it._replace(may_have_begun=True)

    def is_held(self, world: World) -> bool:
        return world.hold == "open"

    def recall(self, world: World, i: int) -> World:
        """Take what an executor says of its own `begin`. What it builds on is not known if another state was stored since."""
        it = world.tries[i]
        version = VERSIONS[UNSURE if it.is_behind else NOW] or 0
        return self.settle(world, i, self.decide_recall, THIS_MOMENT, has_changed(it), version) or world

    @staticmethod
    def decide_recall(
        job: model.Job, attempt: model.Attempt, now: datetime, has_begun: bool, version: int
    ) -> decide.Decision | None:
        return decisions.recall(job, attempt, now, has_begun=has_begun, is_proven=has_begun, state_version=version)

    def restore(self, world: World, i: int) -> World | None:
        """Take an attempt again that shows its receipt. None: another attempt has its number, or it has to wait."""
        it = world.tries[i]
        j, number = it.job, it.number - LOST_NUMBER
        if is_refused(it):
            return None
        known = world.jobs[j]
        plan = known.plan if known.plan and known.plan.attempt == it.plan else None
        claimed = known._replace(status="CLAIMED", attempt=number, is_canceled=False, plan=plan)
        fresh = Try(j, number, it.runner)
        is_busy = any(other.status in ACTIVE for k, other in enumerate(world.jobs) if k != j)
        owners = [e for e, other in enumerate(world.tries) if other.job == j and not other.outcome]
        e = next((e for e in owners if world.tries[e].number < number), None)
        found = self.decide_restore(
            None if known.status == NEW else rows.job_row(j, known),
            rows.job_row(j, claimed),
            rows.attempt_row(fresh),
            None if e is None else rows.attempt_row(world.tries[e]),
            is_module_busy=is_busy,
        )
        if found is None:
            return self.notice(world) if world.hold == "unnoticed" else None
        world = world if world.hold == "open" else set_back.held(world, self.assume_begun)
        it = world.tries[i]
        if e is not None:
            replaced = decisions.replaced(rows.attempt_row(world.tries[e]), THIS_MOMENT)
            world = with_try(world, e, **rows.row_of(world.tries[e], replaced))
        taken = it._replace(number=number, **rows.row_of(fresh, found.attempt))
        world = with_job(with_try(world, i, **taken._asdict()), j, rows.job_of(known, found.job, None, it.runner))
        world = world._replace(tries=tuple(sorted(world.tries)))
        i = world.tries.index(taken)
        return self.recall(world, i) if has_changed(taken) else world

    def decide_restore(
        self,
        known: model.Job | None,
        claimed: model.Job,
        attempt: model.Attempt,
        earlier: model.Attempt | None,
        *,
        is_module_busy: bool,
    ) -> decide.Decision | None:
        return decisions.restore(known, claimed, attempt, THIS_MOMENT, earlier=earlier, is_module_busy=is_module_busy)

    # ---- a claim

    def claim(self, world: World, j: int, r: int) -> World | None:
        job, runner = world.jobs[j], world.runners[r]
        is_busy = any(other.status in ACTIVE for other in world.jobs)
        resumed = self.resumed(job)
        maker = None if resumed is None or world.runners[resumed.runner].is_removed else resumed.runner
        is_first, is_held = self.is_first_of_module(world, j), self.is_held(world)
        key = ("claim", j, job, r, runner, is_busy, is_first, world.quarantine > 0, maker, is_held)
        if key not in self._known:
            seat = decide.ClaimContext(
                f"rnr_{r}",
                f"ins_{r}",
                is_connected=runner.link,
                takes_jobs=not runner.is_removed,
                free=1,
                is_selected=True,
            )
            made_by = None if maker is None else f"rnr_{maker}"
            found = decide.claim(
                rows.job_row(j, job),
                job.attempt,
                seat,
                THIS_MOMENT,
                is_module_busy=is_busy,
                is_first_of_module=is_first,
                has_quarantine=world.quarantine > 0,
                made_by=made_by,
                is_module_held=is_held,
            )
            self._known[key] = None if found is None else rows.job_of(job, found.job, None, r)
        claimed: Job | None = self._known[key]
        if claimed is None:
            return None
        plan = job.attempt if maker is None or resumed is None else resumed.attempt
        taken = Try(j, job.attempt, r, base=NOW, plan=plan)
        others = set_back.number_given(world.tries, j, job.attempt)
        tries = sorted([*others, taken])
        return with_job(world._replace(tries=tuple(tries)), j, claimed)

    def is_first_of_module(self, world: World, j: int) -> bool:
        queued = [rows.job_row(k, job) for k, job in enumerate(world.jobs) if job.status == "QUEUED"]
        return min(queued, key=turn_in_module, default=None) == rows.job_row(j, world.jobs[j])

    def resumed(self, job: Job) -> Plan | None:
        """The plan that the job goes on with."""
        if job.plan is None:
            return None
        key = ("resumed", job.plan)
        if key not in self._known:
            row = rows.plan_row(0, job.plan)
            self._known[key] = decide_plan.is_resumable(row, state_version=VERSIONS[NOW] or 0, inputs_sha256="")
        return job.plan if self._known[key] else None

    # ---- the permit to mutate

    def begin(self, world: World, i: int) -> tuple[World, str]:
        """Take a `begin` in, and what is answered."""
        it = world.tries[i]
        world = with_try(world, i, mail=it.mail & ~ASK)
        job = world.jobs[it.job]
        doubts = self.doubts(world, it)
        names = job.plan is not None and it.plan == job.plan.attempt
        is_held = self.is_held(world)
        key = ("begin", job, it[ROW], it.base, names, world.quarantine > 0, doubts, is_held)
        if key not in self._known:
            plan = rows.plan_row(it.job, job.plan) if job.plan and names else None
            module = decide.ModuleFacts(VERSIONS[NOW] or 0, world.quarantine > 0, doubts, is_held=is_held)
            found = self.decide_begin(world, it, module, plan)
            self._known[key] = self._saved(job, it, found) if isinstance(found, decide.Decision) else found
        decided: Decision = self._known[key]
        if decided in ("quarantine", "held"):
            return self.settle(world, i, decide.send_back, "", THIS_MOMENT) or world, "superseded"
        if isinstance(decided, str):
            return world, decided
        if decided is not None:
            world = self._save(world, i, decided)
        if it.begun != NO:
            return self.begun_again(world, i), "begun"
        return with_try(world, i, mail=world.tries[i].mail | ANSWER), "begun"

    def begun_again(self, world: World, i: int) -> World:
        return with_try(world, i, mail=world.tries[i].mail | ANSWER)

    def decide_begin(
        self, world: World, it: Try, module: decide.ModuleFacts, plan: model.Plan | None
    ) -> decide.Decision | str | None:
        job = rows.job_row(it.job, world.jobs[it.job])
        has_waited = self.has_waited(world.jobs[it.job])
        if plan is not None and plan.decided_at is not None:
            # `approve` takes only an approval that names every doubt of its time.
            seen = [doubt.ref for doubt in module.doubts if doubt.fenced_at < plan.decided_at]
            plan = msgspec.structs.replace(plan, doubts=seen)
        return decide.begin(
            job,
            rows.attempt_row(it),
            module,
            VERSIONS[it.base] or 0,
            plan,
            THIS_MOMENT,
            has_waited=has_waited,
            plan_sha256="",
        )

    def has_waited(self, job: Job) -> bool:
        return job.has_waited

    def doubts(self, world: World, _it: Try | None) -> tuple[Doubt, ...]:
        return tuple(
            Doubt(
                rows.ref(other),
                rows.EPOCH + other.fenced * rows.HOUR,
                is_in_contact=not other.is_gone and self.is_in_contact(world, other),
            )
            for other in world.tries
            if other.fenced and other.outcome != UNKNOWN
        )

    # ---- what is delivered

    def may_deliver(self, _world: World, _it: Try) -> bool:
        """By the attempt's own credential, whatever became of its runner."""
        return True

    def take(self, world: World, i: int, *, is_same_lineage: bool = True) -> World | None:
        """Take in the next event of an attempt: one of its states, the end of its step, or its result."""
        it = world.tries[i]
        if self.refuses(it):
            return None
        if it.mark < it.states:
            return self.take_state(world, i, is_same_lineage=is_same_lineage)
        if it.mark == it.states and it.end in ("S", "C"):
            step = StepStatus(Step.APPLY, "SUCCEEDED" if it.end == "S" else "FAILED", is_cut_short=it.end == "C")
            is_known = it.is_change_ended and not decide.leaves_change_open(step)
            is_change_ended = is_known or decide.ends_change(step)
            return with_try(world, i, mark=it.mark + 1, is_change_ended=is_change_ended)
        world = with_try(world, i, mark=it.mark + 1)
        if it.result == "WAITING":
            kept = KeptPlan(VERSIONS[it.base] or 0, "", 0, "")
            if (after := self.settle(world, i, decide.wait, kept, THIS_MOMENT)) is not None:
                return after
        return self.settle(world, i, self.finish, Result(it.result), THIS_MOMENT) or world  # type: ignore[arg-type]

    finish = staticmethod(decide.finish)

    def refuses(self, it: Try) -> bool:
        """Whether nothing more is accepted from an attempt."""
        if not it.has_result:
            return False  # most attempts: the question is not worth a row
        return decide.refusal_of_events(rows.attempt_row(it), THIS_MOMENT) is not None

    def take_one_more(self, world: World, i: int) -> World:
        """The attempt has delivered everything, and something with its credential sends another state."""
        return world if self.refuses(world.tries[i]) else self.receive(world, i)

    def take_state(self, world: World, i: int, *, is_same_lineage: bool = True) -> World | None:
        it = world.tries[i]
        if it.stored <= it.mark:
            return None  # its object is not stored: the mark waits
        after = self.receive(with_try(world, i, mark=it.mark + 1), i, is_same_lineage=is_same_lineage)
        is_errored = it.end == "A" and it.mark + 1 == it.states
        return with_try(after, i, is_change_ended=True) if is_errored else after

    def receive(self, world: World, i: int, *, is_same_lineage: bool = True) -> World:
        it = world.tries[i]
        is_mutating = any((other.begun != NO or other.may_have_begun) and not other.outcome for other in world.tries)
        is_same_lineage = is_same_lineage or self.adopts_any_lineage
        key = (
            "adoption",
            world.jobs[it.job],
            it[ROW],
            self.counts_as_mutating(is_mutating),
            world.quarantine > 0,
            is_same_lineage,
        )
        if key not in self._known:
            self._known[key] = decide.adoption(
                rows.job_row(it.job, world.jobs[it.job]),
                rows.attempt_row(it),
                is_newest=not it.is_passed,
                is_same_lineage=is_same_lineage,
                is_module_mutating=self.counts_as_mutating(is_mutating),
                has_quarantine=world.quarantine > 0,
            )
        if self._known[key]:
            return moved(world, i)
        return world._replace(quarantine=world.quarantine + 1)

    adopts_any_lineage = False

    def counts_as_mutating(self, is_mutating: bool) -> bool:
        return is_mutating

    # ---- what a runner says of an attempt

    def report(self, world: World, i: int, *, saw_process: bool) -> World:
        """A runner speaks of an attempt: it never had a process, or all of its processes have exited.

        The runner always says that everything was delivered, which may be wrong; the server has its mark to compare with.
        """
        if world.tries[i].outcome == UNKNOWN:
            return world
        if not saw_process:
            return self.settle(world, i, self.hand_back, "", THIS_MOMENT) or world
        report = decide.Report("", last=last_event(world.tries[i]), is_delivered=True)
        return self.settle(world, i, self.gone, report, THIS_MOMENT) or world

    gone = staticmethod(decide.gone)
    hand_back = staticmethod(decide.hand_back)

    # ---- people

    def approve(self, world: World, j: int, *, names_all: bool = True) -> World | None:
        """A person approves, and names the doubts that the page showed: all of them, or all but the newest."""
        job = world.jobs[j]
        assert job.plan
        doubts = self.doubts(world, None)
        newest = max((doubt.fenced_at for doubt in doubts), default=None)
        seen = tuple(doubt.ref for doubt in doubts if names_all or doubt.fenced_at != newest)
        key = ("approve", j, job, doubts, seen)
        if key not in self._known:
            module = decide.ModuleFacts(VERSIONS[NOW] or 0, world.quarantine > 0, doubts)
            try:
                row, plan = self.decide_approval(rows.job_row(j, job), rows.plan_row(j, job.plan), module, seen)
            except Conflict:
                self._known[key] = None
            else:
                after = rows.job_of(job, row, plan, job.plan.runner)
                self._known[key] = after._replace(seen=job.plan.attempt)
        return None if self._known[key] is None else with_job(world, j, self._known[key])

    def decide_approval(
        self, job: model.Job, plan: model.Plan, module: decide.ModuleFacts, seen: tuple[AttemptRef, ...]
    ) -> tuple[model.Job, model.Plan]:
        return decide_plan.approve(job, plan, module, model.GivenApproval("usr_1", "somebody", THIS_MOMENT, list(seen)))

    def replan(self, world: World, j: int) -> World:
        job = world.jobs[j]
        assert job.plan
        key = ("replan", j, job)
        if key not in self._known:
            row = decide_plan.replan(rows.job_row(j, job), rows.plan_row(j, job.plan), "usr_1", THIS_MOMENT)
            self._known[key] = rows.job_of(job, row, None, 0)
        return with_job(world, j, self._known[key])

    def decline(self, world: World, j: int) -> World:
        job = world.jobs[j]
        assert job.plan
        key = ("decline", j, job)
        if key not in self._known:
            row, _ = decide_plan.decline(rows.job_row(j, job), rows.plan_row(j, job.plan), "somebody", "", THIS_MOMENT)
            self._known[key] = rows.job_of(job, row, None, 0)
        return with_job(world, j, self._known[key])

    def cancel(self, world: World, j: int) -> World:
        job = world.jobs[j]
        key = ("cancel", j, job)
        if key not in self._known:
            row = decide.cancel(rows.job_row(j, job), "interrupt", THIS_MOMENT, "somebody")
            self._known[key] = rows.job_of(job, row, None, 0)
        return with_job(world, j, self._known[key])

    def adopt(self, world: World) -> World | None:
        """A person's adoption needs the module's lock."""
        is_locked = any(job.status in ACTIVE for job in world.jobs)
        return None if is_locked else moved(world._replace(quarantine=world.quarantine - 1), None)

    def discard(self, world: World) -> World:
        return world._replace(quarantine=world.quarantine - 1)
