"""The arguments and results of the functions in `decide`."""

from datetime import datetime

import msgspec

from terracrew.api.jobs import Attempt, Job, Plan
from terracrew.protocol.messages import AttemptRef
from terracrew.server.policies.model import PolicyNeed
from terracrew.server.tree.modules.policy import DestroyLimits


def hold_ref(hold_id: str) -> AttemptRef:
    """Return the reference of a doubt that is a hold. The attempts of jobs are counted from 1."""
    return AttemptRef(hold_id, 0)


def is_hold(ref: AttemptRef) -> bool:
    return ref.attempt == 0


class Decision(msgspec.Struct, frozen=True):
    """A job, its attempt and its plan, to be saved together."""

    job: Job
    attempt: Attempt
    plan: Plan | None = None
    """The plan to save; None keeps the stored one."""
    ends_doubt: bool = False
    """Whether this ends the module's doubt: an approved plan has begun."""


class Doubt(msgspec.Struct, frozen=True):
    """An attempt of any job of the module that may have made changes that no state records, or a hold (`is_set_back`)."""

    ref: AttemptRef
    fenced_at: datetime
    is_in_contact: bool
    """Whether the server is in contact with it and it has not been reported as terminated."""

    @property
    def is_set_back(self) -> bool:
        """Whether it is not about an attempt: the database was set back, and `ref` names the hold, with attempt 0."""
        return is_hold(self.ref)


class Report(msgspec.Struct, frozen=True):
    """A runner's report that all processes of an attempt have exited."""

    reason: str
    last: int | None = None
    """The number of the outbox's last event."""
    is_delivered: bool = False


class ApproverFacts(msgspec.Struct, frozen=True):
    """What is known now of those who have approved a plan."""

    lapsed: frozenset[str] = frozenset()
    """The ids of those whose approval does not count any more."""
    identities: dict[str, frozenset[str]] = msgspec.field(default_factory=dict[str, frozenset[str]])
    """For each service account: everybody who may have acted as it, and itself. Who is missing here is one person."""
    needs: tuple[PolicyNeed, ...] = ()
    """What policies ask for beside the rules of the module, because they deny the plan."""

    def of(self, actor_id: str) -> frozenset[str]:
        return self.identities.get(actor_id) or frozenset({actor_id})


class ModuleFacts(msgspec.Struct, frozen=True):
    """The facts about a module that `begin` and a late state depend on."""

    state_version: int
    has_quarantine: bool
    doubts: tuple[Doubt, ...] = ()
    limits: DestroyLimits = DestroyLimits()
    """How much an APPLY may destroy without approval."""
    min_approvals: int = 0
    """How many people must approve each plan, whatever it changes."""
    approvals_required_by: str = "the module"
    """The place that requires it, in words."""
    approvers: ApproverFacts = ApproverFacts()
    is_held: bool = False
    """Whether the database was set back, and nobody has released the module since."""
    is_state_brought: bool = False
    """Whether a person imported or restored the current state, and no attempt has written another one since."""
    is_state_replaced: bool = False
    """Whether it took the place of another state then, so that what was created since may be in no state."""
    lock_doubt: str = ""
    """How the lock of a person ended, if not in order, and no state was written since."""
    stops: tuple[str, ...] = ()
    """Why policies do not let the plan be applied at all."""


class ClaimContext(msgspec.Struct, frozen=True):
    """The facts about a connection and its runner that a claim depends on."""

    runner_id: str
    instance_id: str
    is_connected: bool
    """Whether the instance is connected with the epoch of the claim."""
    takes_jobs: bool
    """Whether it is enabled and not draining, according to its record and its last heartbeat."""
    free: int
    is_selected: bool
    """Whether selection finds this instance for jobs of the module: assignment, tier, pins, tags, engine, and caps of groups."""
    has_valid_credential: bool = True
    """Whether the credential of the instance may claim a job. A once token may do so once, until it expires or is revoked."""


class LastContact(msgspec.Struct, frozen=True):
    """The last contact with an attempt, through its executor or a runner that reports it; and whether both disconnected."""

    last: datetime
    is_closed: bool
    is_grace: bool = False
    """Whether `last` is the end of a gap in which this server received nothing, so that it says nothing about this attempt."""
