"""Decides which offers this instance claims, and what it claims ahead, from its free slots and its unanswered claims."""

from collections import OrderedDict

from terracrew.protocol.messages import AttemptRef, Claim, StandingClaims

ANSWER_SECONDS = 30.0
"""How long a claim without an answer holds a slot."""
OFFER_SECONDS = 5.0
"""How long an offer is kept. The server answers the claim of an offer that is no longer open with `missed`."""
_MAX_OFFERS = 256


class Claims:
    """Counts slots and keeps offers. It does no I/O, and time is a parameter (monotonic seconds)."""

    def __init__(self, capacity: int, *, is_for_one_job: bool = False) -> None:
        self.capacity = 1 if is_for_one_job else capacity
        self._is_for_one_job = is_for_one_job
        self._has_taken = False
        self.is_open = True
        """False while draining, because an operator asked for it or because this process is about to end."""
        self._running: set[AttemptRef] = set()
        self._pending: dict[AttemptRef, float] = {}
        self._offers: OrderedDict[AttemptRef, float] = OrderedDict()
        self.is_ahead = False
        """Whether the server of this connection reads standing claims."""
        self._standing = 0
        """The standing claims that the server knows of and has not used."""
        self._received = 0
        """The grants of this connection that answered a standing claim."""
        self.taken = 0
        """How many attempts have taken a slot. A runner of which this number stays the same had no new job."""

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def is_used_up(self) -> bool:
        """Whether the runner was started for one job and has taken it, or has found attempts of an earlier process."""
        return self._is_for_one_job and self._has_taken

    def free(self, now: float) -> int:
        self._pending = {ref: until for ref, until in self._pending.items() if until > now}
        return max(0, self.capacity - len(self._running) - len(self._pending))

    def offered(self, ref: AttemptRef, now: float) -> None:
        """Keep an offer. The server learns of a finished job before this runner sees that its process has ended, so an offer
        that finds every slot taken is often claimed a few milliseconds later."""
        if ref not in self._pending and ref not in self._running:
            self._offers[ref] = now + OFFER_SECONDS
            while len(self._offers) > _MAX_OFFERS:
                self._offers.popitem(last=False)

    def next(self, now: float) -> Claim | None:
        """Return the claim to send now, if any."""
        while self._offers and self.is_open and not self.is_used_up and self.free(now):
            ref, until = self._offers.popitem(last=False)
            if until > now:
                self._pending[ref] = now + ANSWER_SECONDS
                self._standing = max(0, self._standing - 1)  # the server counts in the same way
                return Claim(ref.job_id, ref.attempt)
        return None

    def stand(self, now: float) -> StandingClaims | None:
        """Return the standing claims to send now, if any: one for each free slot.

        Fewer are announced at once. More are announced when the server knows of half of them at most, so that an instance with
        many slots does not send a message for each job that ends. A runner for one job claims offers only: a grant that it
        did not expect now, beside an unanswered claim, would be handed back, and may have used up its credential.
        """
        is_wanted = self.is_ahead and not self._is_for_one_job and self.is_open
        wanted = self.free(now) if is_wanted else 0
        if wanted == self._standing or self._standing < wanted < 2 * self._standing:
            return None
        self._standing = wanted
        return StandingClaims(wanted, self._received)

    def granted(self, ref: AttemptRef, now: float, *, is_ahead: bool = False) -> bool:
        """Return whether the grant can be taken: its claim holds a slot, or one is free."""
        if is_ahead:
            self._received += 1
            self._standing = max(0, self._standing - 1)
            if not self.is_open:
                return False
        if self.is_used_up:
            self._pending.pop(ref, None)
            return False
        if self._pending.pop(ref, None) is None and not self.free(now):
            return False
        self.adopted(ref)
        return True

    def adopted(self, ref: AttemptRef) -> None:
        """Let an attempt take a slot. An offer of it that was kept meanwhile is not claimed any more."""
        self._running.add(ref)
        self._has_taken = True
        self.taken += 1
        self._offers.pop(ref, None)

    def missed(self, ref: AttemptRef) -> None:
        self._pending.pop(ref, None)

    def freed(self, ref: AttemptRef) -> None:
        self._running.discard(ref)

    def disconnected(self) -> None:
        """Forget the offers and claims of a connection that has ended."""
        self._pending.clear()
        self._offers.clear()
        self.is_ahead, self._standing, self._received = False, 0, 0
