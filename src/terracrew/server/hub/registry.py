"""Who is connected to this server, how much each can take, and when each attempt was last heard."""

import time

from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef, CancelMode, LogCadence
from terracrew.server.hub.socket import HubSocket


class RunnerSession:
    """One connected runner instance."""

    def __init__(
        self, socket: HubSocket, *, principal_id: str, runner_id: str, instance_id: str, name: str, epoch: int,
        engines: dict[str, str], slots: int,
    ) -> None:  # fmt: skip
        self.socket = socket
        self.principal_id = principal_id
        self.runner_id = runner_id
        self.instance_id = instance_id
        self.name = name
        self.epoch = epoch
        self.engines = engines
        self.slots = slots
        self.takes_jobs = True
        self.held: set[str] = set()
        """Jobs that it has been granted and that have not ended."""
        self.offered: set[str] = set()
        self.named: set[AttemptRef] = set()
        """The attempts that its last hello or heartbeat named: only for these is it heard."""
        self.heard_at = time.monotonic()

    @property
    def free(self) -> int:
        return self.slots - len(self.held) - len(self.offered) if self.takes_jobs else 0


class ExecutorSession:
    """One connected executor."""

    def __init__(self, socket: HubSocket, ref: AttemptRef) -> None:
        self.socket = socket
        self.ref = ref

    def watch(self, is_watched: bool) -> None:
        self.socket.post(messages.ConfigureExecutor(LogCadence(is_watched=is_watched)))

    def cancel(self, mode: CancelMode) -> None:
        self.socket.post(messages.CancelAttempt(self.ref.job_id, self.ref.attempt, mode))


class Registry:
    def __init__(self) -> None:
        self.runners: dict[str, RunnerSession] = {}
        """By instance id."""
        self.of_runner: dict[str, dict[str, RunnerSession]] = {}
        """By runner id, then instance id."""
        self.executors: dict[AttemptRef, ExecutorSession] = {}
        self._last_heard: dict[AttemptRef, float] = {}
        self._started_at = time.monotonic()

    def add(self, session: RunnerSession) -> None:
        if old := self.runners.get(session.instance_id):
            old.socket.drop()
        self.runners[session.instance_id] = session
        self.of_runner.setdefault(session.runner_id, {})[session.instance_id] = session

    def remove(self, session: RunnerSession) -> bool:
        """Forget a session, unless a newer one has taken its place."""
        if self.runners.get(session.instance_id) is not session:
            return False
        del self.runners[session.instance_id]
        del self.of_runner[session.runner_id][session.instance_id]
        if not self.of_runner[session.runner_id]:
            del self.of_runner[session.runner_id]
        for ref in session.named:
            self._last_heard[ref] = session.heard_at
        return True

    def add_executor(self, session: ExecutorSession) -> None:
        if old := self.executors.get(session.ref):
            old.socket.drop()
        self.executors[session.ref] = session

    def remove_executor(self, session: ExecutorSession) -> None:
        if self.executors.get(session.ref) is session:
            del self.executors[session.ref]
            self._last_heard[session.ref] = time.monotonic()

    def silence(self, ref: AttemptRef, instance_id: str, claimed: float) -> tuple[float, bool]:
        """For how many seconds neither the attempt's executor nor its runner (naming it) was heard; and is either connected?

        `claimed` is how long ago it was claimed: a grant that is on its way counts as heard, and so does all that was before this
        server's own start, since nobody is lost because the server was away.
        """
        if ref in self.executors:
            return 0.0, True
        now = time.monotonic()
        ages = [now - self._started_at, claimed, now - self._last_heard.get(ref, float("-inf"))]
        session = self.runners.get(instance_id)
        is_connected = session is not None and ref in session.named
        if session is not None and is_connected:
            ages.append(now - session.heard_at)
        return min(ages), is_connected

    def forget(self, ref: AttemptRef) -> None:
        self._last_heard.pop(ref, None)
