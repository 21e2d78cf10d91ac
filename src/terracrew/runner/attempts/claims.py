"""Decides which offers this instance claims, from its free slots and its unanswered claims."""

from collections import OrderedDict

from terracrew.protocol.messages import AttemptRef, Claim

ANSWER_SECONDS = 30.0
"""How long a claim without an answer holds a slot."""
OFFER_SECONDS = 5.0
"""How long an offer is kept. The server answers the claim of an offer that is no longer open with `missed`."""
_MAX_OFFERS = 256
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 60.0


class Claims:
    """Counts slots and keeps offers. It does no I/O, and time is a parameter (monotonic seconds)."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.is_open = True
        """False while draining, because an operator asked for it or because this process is about to end."""
        self._running: set[AttemptRef] = set()
        self._pending: dict[AttemptRef, float] = {}
        self._offers: OrderedDict[AttemptRef, float] = OrderedDict()
        self._paused_until = 0.0
        self._failed_starts = 0
        """How many starts in a row have failed."""

    @property
    def pending(self) -> int:
        return len(self._pending)

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
        while self._offers and self.is_open and now >= self._paused_until and self.free(now):
            ref, until = self._offers.popitem(last=False)
            if until > now:
                self._pending[ref] = now + ANSWER_SECONDS
                return Claim(ref.job_id, ref.attempt)
        return None

    def granted(self, ref: AttemptRef, now: float) -> bool:
        """Return whether the grant can be taken: its claim holds a slot, or one is free."""
        if self._pending.pop(ref, None) is None and not self.free(now):
            return False
        self.adopted(ref)
        return True

    def adopted(self, ref: AttemptRef) -> None:
        """Let an attempt take a slot. An offer of it that was kept meanwhile is not claimed any more."""
        self._running.add(ref)
        self._offers.pop(ref, None)

    def missed(self, ref: AttemptRef) -> None:
        self._pending.pop(ref, None)

    def freed(self, ref: AttemptRef) -> None:
        self._running.discard(ref)

    def disconnected(self) -> None:
        """Forget the offers and claims of a connection that has ended."""
        self._pending.clear()
        self._offers.clear()

    def failed_to_start(self, now: float) -> None:
        """Claim nothing for a while, because the obstacle that stopped this start would probably stop the next one. Each failure
        in a row doubles the pause, so that a job that nobody can start does not use up an attempt every few seconds."""
        if now < self._paused_until:
            return  # it was claimed before the pause, and met the same obstacle
        self._paused_until = now + min(_FIRST_PAUSE_SECONDS * 2**self._failed_starts, _LONGEST_PAUSE_SECONDS)
        self._failed_starts += 1

    def has_started(self) -> None:
        """End the row of failures."""
        self._failed_starts = 0
