"""Counts the slots of this instance, and decides which credits it sends ahead for the free ones."""

from terracrew.protocol.messages import AttemptRef, Credits


class Slots:
    """Counts slots and credits. It does no I/O."""

    def __init__(self, capacity: int, *, is_for_one_job: bool = False) -> None:
        self.capacity = 1 if is_for_one_job else capacity
        self._is_for_one_job = is_for_one_job
        self.is_open = True
        """False while draining, because an operator asked for it or because this process is about to end."""
        self._running: set[AttemptRef] = set()
        self._credits = 0
        """The credits that the server knows of and has not used."""
        self._received = 0
        """The grants of this connection."""
        self.taken = 0
        """How many attempts have taken a slot. A runner of which this number stays the same had no new job."""

    @property
    def is_used_up(self) -> bool:
        """Whether the runner was started for one job and has taken it, or has found attempts of an earlier process."""
        return self._is_for_one_job and self.taken > 0

    @property
    def free(self) -> int:
        return 0 if self.is_used_up else max(0, self.capacity - len(self._running))

    def credits_to_send(self) -> Credits | None:
        """Return the credits to send now, if any: one for each free slot.

        Fewer are announced at once. More are announced when the server knows of half of them at most, so that an instance with
        many slots does not send a message for each job that ends.
        """
        wanted = self.free if self.is_open else 0
        if wanted == self._credits or self._credits < wanted < 2 * self._credits:
            return None
        self._credits = wanted
        return Credits(wanted, self._received)

    def use_credit(self) -> None:
        """Count a grant, which has used a credit, whether it can be taken or not."""
        self._received += 1
        self._credits = max(0, self._credits - 1)

    def take(self, ref: AttemptRef) -> bool:
        """Take a slot for a grant. Returns whether one is free, and this instance has not stopped to take jobs since it sent the credit.

        A runner for one job takes it all the same: the claim may have used up its credential.
        """
        if not self.free or not (self.is_open or self._is_for_one_job):
            return False
        self.adopted(ref)
        return True

    def adopted(self, ref: AttemptRef) -> None:
        """Let an attempt take a slot."""
        self._running.add(ref)
        self.taken += 1

    def freed(self, ref: AttemptRef) -> None:
        self._running.discard(ref)

    def disconnected(self) -> None:
        """Forget the credits of a connection that has ended."""
        self._credits = self._received = 0
