"""Who is connected to this server, how much each can take, and when each attempt was last heard."""

import time
from collections.abc import Callable, Iterable, Iterator

from terracrew.errors import Superseded
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef, CancelMode, LogCadence
from terracrew.server.hub.socket import HubSocket
from terracrew.server.identity.model import Principal

GAP = 5.0
"""A look at the attempts that comes so much later than the one before says nothing about who was silent meanwhile."""

REMEMBERED = 120.0
"""Whoever went longer ago than this is long lost, whether it was seen to go or not."""


class RunnerSession:
    """One connected runner instance."""

    def __init__(
        self, socket: HubSocket, principal: Principal, *, runner_id: str, instance_id: str, name: str, epoch: int,
        engines: dict[str, str], slots: int, is_draining: bool = False, is_drained: bool = False,
    ) -> None:  # fmt: skip
        self.socket = socket
        self.principal = principal
        """Whose credential it shows; renewed with the token."""
        self.runner_id = runner_id
        self.instance_id = instance_id
        self.name = name
        self.epoch = epoch
        self.engines = engines
        self.slots = slots
        self.is_draining = is_draining
        """By its own word."""
        self.is_closed = False
        """By its record, which is draining or disabled."""
        self.is_drained = is_drained
        """What it was last told of that."""
        self.claiming = 0
        self.held: set[str] = set()
        """Jobs that it has been granted and that have not ended."""
        self.offered: set[str] = set()
        self.named: set[AttemptRef] = set()
        """The attempts that its last hello or heartbeat named: only for these is it heard."""
        self.granted: set[AttemptRef] = set()
        """Granted since its last heartbeat, which could not name them yet."""
        self.heard_at = 0.0

    @property
    def takes_jobs(self) -> bool:
        return not (self.is_draining or self.is_closed)

    @property
    def free(self) -> int:
        return self.slots - len(self.held) - len(self.offered) if self.takes_jobs else 0


class ExecutorSession:
    """One connected executor. What it was told once is not told again."""

    def __init__(self, socket: HubSocket, ref: AttemptRef) -> None:
        self.socket = socket
        self.ref = ref
        self._canceled: CancelMode | None = None
        self._is_superseded = False

    def watch(self, is_watched: bool) -> None:
        self.socket.post(messages.ConfigureExecutor(LogCadence(is_watched=is_watched)))

    def cancel(self, mode: CancelMode) -> None:
        if self._canceled != mode:
            self._canceled = mode
            self.socket.post(messages.CancelAttempt(self.ref.job_id, self.ref.attempt, mode))

    def supersede(self) -> None:
        if not self._is_superseded:
            self._is_superseded = True
            self.socket.post(messages.Superseded("this attempt is no longer the current one"))


class Registry:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.runners: dict[str, RunnerSession] = {}
        """By instance id."""
        self.of_runner: dict[str, dict[str, RunnerSession]] = {}
        """By runner id, then instance id."""
        self.executors: dict[AttemptRef, ExecutorSession] = {}
        self._closed: dict[AttemptRef, float] = {}
        """When an attempt's executor went, or its runner, or the runner ceased to name it: whichever was last."""
        self._looked_at = self._watching_since = clock()

    # ---- runners

    def add(self, session: RunnerSession) -> None:
        if old := self.runners.get(session.instance_id):
            old.socket.drop(Superseded("a newer connection of this instance has taken its place"))
        self.hear(session)
        self.runners[session.instance_id] = session
        self.of_runner.setdefault(session.runner_id, {})[session.instance_id] = session

    def remove(self, session: RunnerSession) -> bool:
        """Forget a session, unless a newer one has taken its place."""
        if not self.has(session):
            return False
        del self.runners[session.instance_id]
        del self.of_runner[session.runner_id][session.instance_id]
        if not self.of_runner[session.runner_id]:
            del self.of_runner[session.runner_id]
        self._close(_own(session, session.named))
        return True

    def has(self, session: RunnerSession) -> bool:
        return self.runners.get(session.instance_id) is session

    def hear(self, session: RunnerSession) -> None:
        session.heard_at = self._clock()

    def name(self, session: RunnerSession, attempts: Iterable[AttemptRef]) -> None:
        """A heartbeat. One that was on its way when a grant left cannot name it; the next one must."""
        before, session.named = session.named, set(attempts) | session.granted
        session.granted = set()
        self._close(_own(session, before - session.named))

    def grant(self, session: RunnerSession, ref: AttemptRef) -> None:
        session.named.add(ref)
        session.granted.add(ref)

    # ---- executors

    def add_executor(self, session: ExecutorSession) -> None:
        if old := self.executors.get(session.ref):
            old.socket.drop(Superseded("a newer connection of this attempt has taken its place"))
        self.executors[session.ref] = session

    def remove_executor(self, session: ExecutorSession) -> None:
        if self.executors.get(session.ref) is session:
            del self.executors[session.ref]
            self._close([session.ref])

    # ---- who is heard

    def look(self) -> None:
        """Called before each look at the attempts: after a gap (nobody was read, or the database was away) all have a full period."""
        now = self._clock()
        if now - self._looked_at > GAP:
            self._watching_since = now
        self._looked_at = now
        self._closed = {ref: at for ref, at in self._closed.items() if now - at < REMEMBERED}

    def silence(self, ref: AttemptRef, instance_id: str, age: float) -> tuple[float, bool]:
        """For how many seconds neither the attempt's executor nor its runner (naming it) was heard; and were both seen to go?

        `age` is what the database knows: how long ago it was claimed, or heard by whichever server.
        """
        if ref in self.executors:
            return 0.0, False
        now = self._clock()
        ages = [age, now - self._watching_since]
        closed_at = self._closed.get(ref)
        if closed_at is not None:
            ages.append(now - closed_at)
        session = self.runners.get(instance_id)
        is_named = session is not None and ref in session.named
        if session is not None and is_named:
            ages.append(now - session.heard_at)
        return min(ages), closed_at is not None and not is_named

    def heard(self, instances: Iterable[str]) -> Iterator[tuple[AttemptRef, str | None]]:
        """The attempts of connected executors and, with their instance, those that these instances name and have."""
        for ref in self.executors:
            yield ref, None
        for instance_id in instances:
            if session := self.runners.get(instance_id):
                yield from ((ref, instance_id) for ref in _own(session, session.named))

    def _close(self, refs: Iterable[AttemptRef]) -> None:
        now = self._clock()
        for ref in refs:
            self._closed[ref] = now


def _own(session: RunnerSession, refs: Iterable[AttemptRef]) -> Iterator[AttemptRef]:
    """Of the attempts that a runner names, those of jobs that it has: it may name whatever it likes."""
    return (ref for ref in refs if ref.job_id in session.held)
