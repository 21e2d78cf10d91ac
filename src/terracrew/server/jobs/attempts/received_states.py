"""Decides what becomes of a state that an attempt delivers: it becomes current, or goes into quarantine until a person decides."""

from collections.abc import Iterable

import msgspec

from terracrew.api.jobs import Attempt, Job
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import decide
from terracrew.server.jobs.attempts import reads
from terracrew.server.jobs.decision_types import ApproverFacts, Doubt
from terracrew.server.principals.model import SYSTEM
from terracrew.server.state import service as states
from terracrew.server.state import store as state_store
from terracrew.server.state.model import Received
from terracrew.server.tree.modules.policy import ModulePolicy

NO_POLICY = ModulePolicy()
NO_APPROVERS = ApproverFacts()
MAX_UNREADABLE = 32
"""How many states of one attempt that cannot be read are kept: a person must decide about each of them."""


async def module_facts(
    tx: Tx,
    module_id: str,
    doubts: Iterable[Doubt] = (),
    policy: ModulePolicy = NO_POLICY,
    approvers: ApproverFacts = NO_APPROVERS,
    *,
    is_held: bool = False,
    stops: tuple[str, ...] = (),
) -> decide.ModuleFacts:
    """Read what `decide.begin` asks about a module."""
    found = await state_store.version_facts(tx, module_id)
    return decide.ModuleFacts(
        found.version,
        found.has_quarantine,
        tuple(doubts),
        policy.limits,
        policy.min_approvals,
        policy.place_of("min_approvals"),
        approvers,
        is_held,
        found.is_brought,
        found.is_replaced,
        found.lock_doubt,
        stops,
    )


async def receive(
    tx: Tx, job: Job, attempt: Attempt, event: int, received: Received, address: str | None = None
) -> bool:
    """Store a state once. The state of the attempt that may apply becomes current; for any other state, `decide.adoption` decides.

    `address` is where it came from. Return whether the state is kept: an attempt has only `MAX_UNREADABLE` unreadable ones kept.
    """
    if received.problem and await state_store.count_unreadable(tx, job.id, attempt.number) >= MAX_UNREADABLE:
        return False
    await states.hold(tx, job.module_id)
    now = await states.current(tx, job.module_id)
    module = await module_facts(tx, job.module_id)
    fact = received.fact
    is_nobody_elses = attempt.begun_state_version == module.state_version or (
        now is not None and (now.job_id, now.attempt) == (job.id, attempt.number)
    )
    is_adopted = not received.problem and decide.adoption(
        job,
        attempt,
        is_newest=is_nobody_elses and (now is None or fact.serial > now.serial),
        is_same_lineage=now is None or fact.lineage == now.lineage,
        is_module_mutating=await reads.has_begun(tx, job.module_id) or await states.is_locked(tx, job.module_id),
        has_quarantine=module.has_quarantine,
    )
    version = await state_store.supersede(tx, job.module_id) if is_adopted else None
    await states.insert(tx, job.module_id, job.id, attempt.number, event, received, version)
    if version is not None:
        await states.end_lock_doubt(tx, job.module_id)
    if is_adopted and not decide.is_current(job, attempt):
        details = {"module": job.module_id, "job": job.number, "attempt": attempt.number}
        details |= {"version": version, "serial": fact.serial}
        by = msgspec.structs.replace(SYSTEM, address=address)
        await audit.record(tx, by, "state.adopt_late", "job", job.id, details, organization_id=job.organization_id)
    tx.wake("states", job.module_id)
    tx.wake("jobs", job.id)
    return True
