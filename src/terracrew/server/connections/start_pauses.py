"""What an instance does not want to start for a moment, because it could not: single jobs, and all that ask the same of a dispatcher."""

import math

from terracrew.protocol.dispatcher_choice import DispatcherChoice

MAX_SECONDS = 600.0
_MAX_PAUSES = 1_000


class StartPauses:
    """Time is a parameter (monotonic seconds). A pause is kept for one connection: a new one tries again."""

    def __init__(self) -> None:
        self._until: dict[str | DispatcherChoice, float] = {}
        """By job, or by what jobs ask for, with the name of the dispatcher."""

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, what: str | DispatcherChoice, seconds: float, now: float) -> None:
        if not seconds > 0:
            return
        self._until = {each: until for each, until in self._until.items() if until > now}
        if len(self._until) < _MAX_PAUSES:  # the others cost an attempt that fails
            self._until[what] = now + min(seconds, MAX_SECONDS)

    def has(self, what: str | DispatcherChoice, now: float) -> bool:
        return self.seconds_left(what, now) > 0

    def seconds_left(self, what: str | DispatcherChoice, now: float) -> float:
        return max(0.0, self._until.get(what, -math.inf) - now)
