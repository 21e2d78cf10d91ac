"""Permission to apply: the current attempt gets it if its plan is up to date; otherwise it is refused with the reason."""

from typing import Literal

from terracrew.errors import Unavailable
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import reads as connection_reads
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store as history_store
from terracrew.server.history.points import History
from terracrew.server.jobs import decide, service, store
from terracrew.server.jobs.attempts import lost_attempts, policy_checks, received_states
from terracrew.server.jobs.attempts.policy_checks import LookedAt, PolicyChecks
from terracrew.server.jobs.plans import approvers
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.jobs.plans.approvers import Approvers
from terracrew.server.jobs.set_back import detection
from terracrew.server.jobs.set_back.loop import LOST_OWN_WRITES
from terracrew.server.policies.model import PolicyGate
from terracrew.server.state import service as states
from terracrew.server.tree.modules import policy

MAX_WORDS_CHARACTERS = 4_000
"""How much of what policies and rules say is sent to an executor: a frame has a bound."""
MAX_LOOKS = 3
"""How often policies look again because others have become active meanwhile, before the executor is asked to wait."""
_REFUSALS = {
    "state_moved": "the state has changed since the plan was made",
    "quarantine": "the module has a state in quarantine that a person must adopt or discard first",
    "held": "the server's database was set back, and nobody has released the module since",
    "superseded": "this attempt is no longer the current one",
    "canceled": "the job was canceled",
    "approval": "this plan needs an approval",
    "plan_changed": "the plan that is to be applied is not the one that was described and approved: its SHA-256 differs",
    "leaving": "its runner ends too soon for a change",
    "wait": "an attempt that was given up still reports: waiting until all of its processes have exited",
}


async def permit(
    db: Database, registry: Registry, history: History, checks: PolicyChecks, ref: AttemptRef, asked: messages.Begin
) -> messages.Begun | messages.BeginRefused:
    """Grant permission to apply, or say why not (rule 4).

    No apply begins unless each policy that is mandatory at the module's place at that moment has passed on the hash of exactly that
    plan. They look at it before the transaction, which finds out whether they are still the same.
    """
    answer: messages.Begun | messages.BeginRefused | Literal["again"] | None = "again"
    for _ in range(MAX_LOOKS):
        looked = await checks.look(ref, asked.plan_attempt, asked.plan_sha256)
        if looked.waits_for:
            return messages.BeginRefused("wait", f"policies look at the plan: {looked.waits_for}")
        answer = await _decide(db, registry, history, looked, ref, asked)
        if answer != "again":
            break
    if answer == "again":
        return messages.BeginRefused("wait", "the policies of the module were changed at this moment: waiting for them")
    if answer is None:  # its next hello says what it had begun
        raise Unavailable("the database was set back; connect again")
    return answer


async def _decide(
    db: Database, registry: Registry, history: History, looked: LookedAt, ref: AttemptRef, asked: messages.Begin
) -> messages.Begun | messages.BeginRefused | Literal["again"] | None:
    async def work(tx: Tx) -> messages.Begun | messages.BeginRefused | Literal["again"] | None:
        found = await store.hold(tx, ref.job_id, ref.attempt)
        if found is None:
            raise Unavailable("this server does not know this attempt any more; connect again")
        job, attempt = found
        if await history.lacks_latest(tx):
            await detection.start(tx, LOST_OWN_WRITES, lost_at=history.latest_at)
            return None
        doubts = await lost_attempts.doubts(tx, registry, job.module_id)  # held before the module, as the ingest does
        await states.hold(tx, job.module_id)
        rules = await policy.of_module(tx, job.module_id)
        is_current = decide.is_current(job, attempt)
        has_begun = attempt.begun_at is not None
        if is_current and has_begun and await policy_checks.is_another_plan(tx, ref, asked.plan_sha256):
            return messages.BeginRefused("plan_changed", _REFUSALS["plan_changed"])
        gate = await policy_checks.gate(tx, job, looked) if is_current and not has_begun else PolicyGate()
        if gate is None:
            return "again"
        plan = None if asked.plan_attempt is None else await plan_store.get(tx, job.id, asked.plan_attempt)
        known = Approvers()
        if plan is not None or gate.needs:
            known = await approvers.hold(tx, job, plan, rules, await service.place_of(tx, job))
        is_held = await history_store.is_held(tx, job.module_id)
        module = await received_states.module_facts(
            tx, job.module_id, doubts, rules, known.facts, is_held=is_held, stops=gate.stops
        )
        now = tx.moment
        has_waited = await plan_store.has_waited(tx, job.id)
        decision = decide.begin(
            job,
            attempt,
            module,
            asked.state_version,
            plan,
            now,
            has_waited=has_waited,
            plan_sha256=asked.plan_sha256,
            ends_at=await connection_reads.end_of(tx, attempt.instance_id),
        )
        if decision == "policy":
            why = "; ".join(gate.stops)[:MAX_WORDS_CHARACTERS]
            stopped = decide.stop(job, attempt, why, now)
            assert stopped is not None
            await store.move(tx, job, attempt, stopped)
            # Executors of every version end with this answer.
            return messages.BeginRefused("superseded", why)
        if isinstance(decision, str):
            if decision in ("quarantine", "held", "leaving"):
                keeps_plan = decision == "leaving"
                back = decide.send_back(job, attempt, _REFUSALS[decision], now, keeps_plan=keeps_plan)
                assert back is not None
                await store.move(tx, job, attempt, back)
            why = decide.reasons_to_ask(job, module, has_waited=has_waited) if decision == "approval" else []
            if decision == "approval" and plan is not None:
                why += [
                    f"{each.by} {known.reasons[each.by_id]}" for each in plan.approvals if each.by_id in known.reasons
                ]
            return messages.BeginRefused(decision, "; ".join(why)[:MAX_WORDS_CHARACTERS] or _REFUSALS[decision])
        if decision is not None:
            await store.move(tx, job, attempt, decision)
        return messages.Begun(asked.state_version, await history.add(tx, job.module_id, ref))

    return await db.write(work)
