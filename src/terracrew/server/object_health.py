"""Whether an object store answers and takes writes, as the last requests to it have shown."""

from collections import Counter

from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.server import object_problems

AWAY = "the object store does not answer"
NO_WRITES = "the object store takes no writes"
NO_READS = "the object store cannot be read"
NOT_THE_SAME = "the object store is not there any more: its place has another one, or none"
RETRY_AFTER_SECONDS = 2.0
MAX_PROBE_BYTES = 1 << 20
log = get_logger("terracrew.objects")


class ObjectHealth:
    def __init__(self, url: str) -> None:
        self._url = url
        self.problem = ""
        """What is wrong, as readiness and pages say it; empty if the store works."""
        self.errors: Counter[str] = Counter()
        """How often the store has failed: `storage` for what it did not store, `read` for everything else."""
        self.is_logged = True
        """Whether failures are logged."""
        self._refused_bytes: int | None = None
        """The size of the last object that it did not store; None if it has stored one since."""

    @property
    def probe_bytes(self) -> int:
        """The size of an object that shows whether the store works again."""
        return min(self._refused_bytes or 0, MAX_PROBE_BYTES)

    def failed(self, error: BaseException, size: int | None) -> Unavailable:
        """Note that the store did not store an object of this size, or (None) did not do anything else. Returns what to raise."""
        found = object_problems.explain(error, self._url)
        message = AWAY if found.is_away else NO_READS if size is None else NO_WRITES
        return self._noted(message, found.words, size)

    def is_not_the_same(self, size: int | None = None) -> Unavailable:
        """Note that the place of the store does not have its id any more. Returns what to raise."""
        return self._noted(NOT_THE_SAME, object_problems.place(self._url), size)

    def _noted(self, message: str, reason: str, size: int | None) -> Unavailable:
        self.errors["read" if size is None else "storage"] += 1
        # Once, not for every object. Only the log has the reason, which may name hosts and paths.
        if self.is_logged and not self.problem:
            log.warning(message, reason=reason)
        if size is not None:
            self._refused_bytes = size
        self.problem = message
        advice = "; try again in a moment" if message == AWAY else ""
        return Unavailable(message + advice, retry_after=RETRY_AFTER_SECONDS)

    def stored(self, size: int) -> None:
        """Note that the store took an object. A smaller one than it refused does not show that there is space again."""
        if self.problem not in ("", NOT_THE_SAME) and size >= self.probe_bytes:
            self._recovered()

    def answered(self) -> None:
        """Note that the store answered something else than a write. That does not show that it takes writes again."""
        if self.problem in (AWAY, NO_READS) and self._refused_bytes is None:
            self._recovered()

    def recognized(self) -> None:
        """Note that the store has its id."""
        if self.problem == NOT_THE_SAME:
            self._recovered()

    def _recovered(self) -> None:
        log.warning("the object store takes writes again" if self.problem == NO_WRITES else "the object store is back")
        self.problem, self._refused_bytes = "", None
