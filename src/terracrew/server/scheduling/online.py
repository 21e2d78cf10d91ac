"""Knows which runners are available for precedence: those that are connected here, those that other servers have, and those that can
be woken."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import chain

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.db.seam import Database, Wakeups
from terracrew.server.db.topics import runner_of
from terracrew.server.scheduling import reads
from terracrew.server.scheduling.assignment_view import AssignedRunners

WHOLE_READ_SECONDS = 60.0
"""How often all connected instances are read, because a wake-up may have been lost. Servers with 100,000 of them cannot do so every
few seconds."""


class OnlineRunners:
    def __init__(self, db: Database, registry: Registry, clock: Callable[[], float] = time.monotonic) -> None:
        self._db, self._registry, self._clock = db, registry, clock
        self._changes: Wakeups | None = None
        self._read_at = float("-inf")
        self._elsewhere: dict[str, set[str]] = {}
        """The names of instances that take jobs and are not connected here, by runner."""
        self._lately: dict[str, set[str]] = {}
        """The names of instances that were connected anywhere a moment ago, by runner."""
        self.wakeable: set[str] = set()
        """The cloud-hosted runners that can be woken."""

    @contextmanager
    def watching(self) -> Generator[None]:
        """Subscribe to the instances that come and go, so that only their runners are read again."""
        with self._db.listen("instances", "runners") as self._changes:
            try:
                yield
            finally:
                self._changes, self._read_at = None, float("-inf")

    async def read(self) -> None:
        """Read what has changed since the last call; everything if that is not known."""
        here = self._registry.runners
        changed = set[str]() if self._changes is None else {runner_of(*each) for each in await self._changes.get(0)}
        is_known = (
            self._changes is not None and "" not in changed and self._clock() - self._read_at < WHOLE_READ_SECONDS
        )
        if is_known:
            found = await reads.connected_of(self._db, changed, here)
            for runner_id in changed:
                self._elsewhere.pop(runner_id, None)
            self._elsewhere |= found
        else:
            self._read_at = self._clock()
            self._elsewhere = await reads.connected_elsewhere(self._db, here)
        self._lately = await reads.connected_a_moment_ago(self._db, here)
        self.wakeable = await reads.wakeable(self._db)

    def change(self, runner_id: str, connected: set[str], lately: set[str], *, can_wake: bool = False) -> None:
        """Set the names of the instances of one runner, as the database has them, and whether it can be woken."""
        (self.wakeable.add if can_wake else self.wakeable.discard)(runner_id)
        here = {session.name for session in self._registry.of(runner_id)}
        self._elsewhere[runner_id], self._lately[runner_id] = connected - here, lately - here

    def left(self, session: RunnerSession) -> None:
        """Count an instance that has just disconnected as online until the database says what became of it.

        Its row says that it is connected until its end is written. A wake-up follows then, and its runner is read again.
        """
        if session.takes_jobs:
            self._elsewhere.setdefault(session.runner_id, set()).add(session.name)

    def has_one_of(self, tier: AssignedRunners, name: str | None) -> bool:
        """Return whether a runner of the tier is online, with an instance of this name if there is one, or can be woken.

        The smaller set is searched: the tier, or all connected runners. A name cannot be woken.
        """
        if name is None and not self.wakeable.isdisjoint(tier.known):
            return True
        known = self._registry.of_runner, self._elsewhere, self._lately
        if sum(map(len, known)) < len(tier.runners):
            return any(runner in tier.known and self._is_online(runner, name) for runner in chain(*known))
        return any(self._is_online(runner, name) for runner in tier.runners)

    def _is_online(self, runner_id: str, name: str | None) -> bool:
        for elsewhere in (self._elsewhere.get(runner_id, ()), self._lately.get(runner_id, ())):
            if name in elsewhere or (name is None and elsewhere):
                return True
        here = self._registry.of_runner.get(runner_id, {}).values()
        return any(session.takes_jobs and name in (None, session.name) for session in here)
