"""Knows which runners and executors are connected to this server, their free slots, and their last contact."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

import msgspec

from terracrew.api.runners import UNCONFIGURED, Configuration
from terracrew.errors import Superseded
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef, CancelMode, LogSettings
from terracrew.server.connections.socket import HubSocket
from terracrew.server.connections.withheld import StartPauses, WithheldJobs
from terracrew.server.db.clock import steady
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.principals.model import Principal

GAP_SECONDS = 5.0
"""If two checks are further apart than this, the server was stopped in between and cannot tell who was silent."""

HISTORY_SECONDS = 60.0
"""How often a runner without news of its own is told a point of the history, which it writes to its disk."""

MAX_MISSED_HEARTBEATS = 2
REMEMBER_SECONDS = 120.0
"""How long the registry remembers a disconnected attempt; after that it is lost in any case."""


MAX_REPORTED_ATTEMPTS = 2_000
"""The most attempts of one runner that are noted as in contact: 1,000 that run, and as many that still deliver."""


class RunnerSession:
    """One connected runner instance."""

    def __init__(
        self,
        socket: HubSocket,
        principal: Principal,
        *,
        runner_id: str,
        instance_id: str,
        name: str,
        epoch: int,
        engines: AvailableEngines,
        slots: int,
        version: str = "",
        tags: frozenset[str] = frozenset(),
        is_draining: bool = False,
        may_leave: bool = False,
        is_self_updating: bool = False,
        knows_merge_results: bool = False,
        drain_sent: bool = False,
        configuration: Configuration = UNCONFIGURED,
    ) -> None:
        self.socket = socket
        self.principal = principal
        """The owner of its credential; replaced when the token is renewed."""
        self.runner_id = runner_id
        self.instance_id = instance_id
        self.name = name
        self.epoch = epoch
        self.engines = engines
        self.slots = slots
        self.version = version
        self.tags = tags
        """The tags of its runner."""
        self.is_draining = is_draining
        """Reported by the runner in its last hello or heartbeat, like its version."""
        self.is_disk_full = False
        self.may_leave = may_leave
        """Whether it may ask to leave: then a claim for it excludes that it is let go, and the reverse."""
        self.is_self_updating = is_self_updating
        """Whether it knows `Update`."""
        self.knows_merge_results = knows_merge_results
        """Whether it can be given a job whose source is the result of a merge."""
        self.sent_update = ""
        """The id of the last update that it was asked for on this connection."""
        self.used_at = 0.0
        """When a job was last given to it or ended, in monotonic seconds."""
        self.is_on_trial = False
        """Whether it has still to prove that it can run jobs (`TrialReport`)."""
        self.retire_reason = ""
        """Why it was asked to end after its last job; empty if it was not."""
        self.is_leaving = False
        """Whether the server is deciding that it may leave, or has agreed."""
        self.drain_reason = ""
        self.ends_at: float | None = None
        self.is_closed = False
        """Whether its runner is draining or disabled in the database."""
        self.drain_sent = drain_sent
        """The last drain flag that was sent to the runner."""
        self.configuration = configuration
        """The last configuration that was sent to the runner."""
        self.ending: set[AttemptRef] = set()
        """Attempts that it reported as ended, and whose report is being decided."""
        self.active_jobs: set[str] = set()
        """Jobs that it has been granted and that have not ended."""
        self.reserved: set[str] = set()
        """Jobs that are being claimed for it. Each keeps a slot until its claim is decided."""
        self.pauses = StartPauses()
        self.credits = 0
        """How many more jobs may be claimed for it. It sends them ahead, for the slots that it knows to be free."""
        self.used_credits = 0
        """How many of its credits were used on this connection."""
        self.reported_attempts: set[AttemptRef] = set()
        """The attempts in its last hello or heartbeat. Contact with the runner counts only for these."""
        self.starting: dict[AttemptRef, str] = {}
        """What the starts of its attempts wait for, as it said in its last heartbeat, maybe on an earlier connection."""
        self.judged_starts: set[AttemptRef] = set()
        """Attempts whose executor had all the time to connect, and of which it was decided once what becomes of them."""
        self.granted: set[AttemptRef] = set()
        """Attempts that were granted after its last heartbeat, which could not report them yet."""
        self.last_contact_at = 0.0
        self.is_asked = False
        """Whether it still has to answer the question that `ask` sent."""
        self._canceled: dict[AttemptRef, CancelMode] = {}
        self._sent_point, self._sent_at = "", -HISTORY_SECONDS

    def next_point(self, latest: str) -> str | None:
        """Return the point of the history that the runner is to remember now; None if it was told one a moment ago."""
        now = steady()
        if latest == self._sent_point or now - self._sent_at < HISTORY_SECONDS:
            return None
        self._sent_point, self._sent_at = latest, now
        return latest

    def ask(self) -> None:
        """Ask the runner whether it is alive: it answers a `configure` with a heartbeat."""
        if not self.is_asked:
            self.is_asked = True
            self.socket.post(messages.ConfigureRunner(self.configuration.heartbeat, self.configuration.levels))

    def cancel(self, ref: AttemptRef, mode: CancelMode) -> None:
        """Cancel an attempt whose executor no server can reach. The same request is sent only once."""
        if self._canceled.get(ref) != mode:
            self._canceled = {known: sent for known, sent in self._canceled.items() if known in self.reported_attempts}
            self._canceled[ref] = mode
            self.socket.post(messages.CancelAttempt(ref.job_id, ref.attempt, mode))

    def configure(self, wanted: Configuration) -> None:
        is_unchanged = (wanted.heartbeat, wanted.log_level) == (
            self.configuration.heartbeat,
            self.configuration.log_level,
        )
        self.configuration = wanted
        if not is_unchanged:
            self.socket.post(messages.ConfigureRunner(wanted.heartbeat, wanted.levels))

    def reserve(self, job_id: str) -> None:
        """Use a slot and a credit for a job that is being claimed for it. The grant counts as sent from now on."""
        self.reserved.add(job_id)
        self.credits -= 1
        self.used_credits += 1

    def release(self, job_id: str, *, is_claimed: bool) -> None:
        """Note that the claim of a job is decided. If it was not claimed, no grant is sent, and the credit can be used again."""
        self.reserved.discard(job_id)
        if not is_claimed:
            self.credits += 1
            self.used_credits -= 1

    @property
    def takes_jobs(self) -> bool:
        return not (self.is_draining or self.is_closed or self.is_leaving or self.is_on_trial or self.retire_reason)

    def retire(self, reason: str) -> None:
        """Ask the process to end after its last job, once on each connection."""
        if reason and not self.retire_reason:
            self.retire_reason = reason
            self.socket.post(messages.Retire(reason))

    @property
    def free(self) -> int:
        """How many jobs can be claimed for it now: the runner has sent a credit for each, and the database knows a slot for each."""
        if not self.takes_jobs:
            return 0
        return min(self.credits, self.slots - len(self.active_jobs | self.reserved))


class ExecutorSession:
    """One connected executor. It gets each message only once."""

    def __init__(self, socket: HubSocket, ref: AttemptRef) -> None:
        self.socket = socket
        self.ref = ref
        self.has_begun = False
        """Whether it has had permission to apply."""
        self.address: str | None = None
        self.runner_id = ""
        """Set when the executor is welcomed."""
        self.log_settings = LogSettings()
        self.last_contact_at = 0.0
        self.is_far_from_runner = False
        """Whether its runner was not connected to this server when the executor connected."""
        self.has_left = asyncio.Event()
        self._canceled: CancelMode | None = None
        self._is_superseded = False

    def watch(self, is_watched: bool) -> None:
        self._tell(msgspec.structs.replace(self.log_settings, is_watched=is_watched))

    def configure(self, wanted: Configuration) -> None:
        self._tell(LogSettings(self.log_settings.is_watched, wanted.batch_size_limit, wanted.period_seconds))

    def _tell(self, log_settings: LogSettings) -> None:
        if log_settings != self.log_settings:
            self.log_settings = log_settings
            self.socket.post(messages.ConfigureExecutor(log_settings))

    def cancel(self, mode: CancelMode) -> None:
        if self._canceled != mode:
            self._canceled = mode
            self.socket.post(messages.CancelAttempt(self.ref.job_id, self.ref.attempt, mode))

    def supersede(self) -> None:
        if not self._is_superseded:
            self._is_superseded = True
            self.socket.post(messages.SupersededNotice("this attempt is no longer the current one"))


class Registry:
    def __init__(self, clock: Callable[[], float] = steady) -> None:
        self.now = clock
        self.runners: dict[str, RunnerSession] = {}
        """Sessions by instance id."""
        self.of_runner: dict[str, dict[str, RunnerSession]] = {}
        """Sessions by runner id, then instance id."""
        self.executors: dict[AttemptRef, ExecutorSession] = {}
        self._closed: dict[AttemptRef, float] = {}
        """When the last of these happened: an attempt's executor or runner disconnected, or the runner no longer reported it."""
        self._silent: dict[AttemptRef, float] = {}
        """Attempts whose executor was dropped because it answered no ping, with the time of the last contact."""
        self.fell_silent: dict[AttemptRef, float] = {}
        """Those of them that were not yet written to the database."""
        self.withheld = WithheldJobs(clock)
        self._checked_at = self.watching_since = clock()

    # ---- runners

    def add(self, session: RunnerSession) -> None:
        if old := self.runners.get(session.instance_id):
            old.socket.drop(Superseded("a newer connection of this instance has replaced this one"))
        self.note_contact(session)
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
        if not session.socket.is_silent:
            self._close(session, _own(session, session.reported_attempts))
        return True

    def of(self, runner_id: str) -> list[RunnerSession]:
        """Return the sessions of a runner's instances."""
        return list(self.of_runner.get(runner_id, {}).values())

    def seconds_until_retry(self, job_id: str) -> float:
        """Return after how many seconds an instance that could not start a job wants to try it again; 0 if there is none."""
        now = time.monotonic()
        left = [each.pauses.seconds_left(job_id, now) for each in self.runners.values() if each.pauses]
        return min((each for each in left if each), default=0.0)

    def has(self, session: RunnerSession) -> bool:
        return self.runners.get(session.instance_id) is session

    def note_contact(self, session: "RunnerSession | ExecutorSession") -> None:
        session.last_contact_at = self.now()

    def set_reported_attempts(self, session: RunnerSession, attempts: Collection[AttemptRef]) -> None:
        """Take the attempts of a heartbeat. If a grant was sent at the same time, the next heartbeat must report it."""
        if not (attempts or session.reported_attempts or session.granted):  # a fleet is mostly idle
            return
        before, session.reported_attempts = session.reported_attempts, set(attempts) | session.granted
        session.granted = set()
        self._close(session, _own(session, before - session.reported_attempts))

    def set_credits(self, session: RunnerSession, message: messages.Credits) -> None:
        """Take the credits of an instance. Grants that it had not received when it sent them have used some of them."""
        on_their_way = max(0, session.used_credits - message.received)
        session.credits = message.slots - on_their_way  # `free` knows how many slots the server allows

    def may_hang(self, session: RunnerSession) -> bool:
        """Return whether an instance has missed two heartbeats: a grant might wait until the instance counts as offline."""
        return self.now() - session.last_contact_at > MAX_MISSED_HEARTBEATS * session.configuration.heartbeat

    def grant(self, session: RunnerSession, ref: AttemptRef) -> None:
        session.reported_attempts.add(ref)
        session.granted.add(ref)

    # ---- executors

    def add_executor(self, session: ExecutorSession) -> None:
        if old := self.executors.get(session.ref):
            old.socket.drop(Superseded("a newer connection of this attempt has replaced this one"))
        self.note_contact(session)
        session.socket.on_contact = lambda: self.note_contact(session)
        self.executors[session.ref] = session
        self._silent.pop(session.ref, None)
        self.fell_silent.pop(session.ref, None)

    def remove_executor(self, session: ExecutorSession) -> None:
        session.has_left.set()
        if self.executors.get(session.ref) is session:
            del self.executors[session.ref]
            if session.socket.is_silent:
                self._silent[session.ref] = self.fell_silent[session.ref] = session.last_contact_at
            else:
                self._close(session, [session.ref])

    # ---- contact and silence

    def note_check(self) -> None:
        """Call this before each check for silence. After a gap, every client gets a full period to report."""
        now = self.now()
        if now - self._checked_at > GAP_SECONDS:
            self.pause()
        self._checked_at = now
        self._closed = {ref: at for ref, at in self._closed.items() if now - at < REMEMBER_SECONDS}
        self._silent = {ref: at for ref, at in self._silent.items() if now - at < REMEMBER_SECONDS}

    def pause(self) -> None:
        """Record that a gap ends now: clients that were silent or disconnected in it may be reconnecting."""
        self.watching_since = self.now()
        self._closed.clear()

    @property
    def watched_for(self) -> float:
        """The seconds since the start, or since the last gap."""
        return self.now() - self.watching_since

    @property
    def closed(self) -> list[AttemptRef]:
        """The attempts whose connections to this server were closed."""
        return list(self._closed)

    def is_elsewhere(self, ref: AttemptRef) -> None:
        """Forget a closed attempt that is connected to another server or has ended."""
        self._closed.pop(ref, None)

    def silence_of(self, instance_id: str, epoch: int, age: float) -> float:
        """Return for how many seconds an instance was silent; `age` is the value from the database."""
        now = self.now()
        ages = [age, now - self.watching_since]
        session = self.runners.get(instance_id)
        if session is not None and session.epoch == epoch:
            ages.append(now - session.last_contact_at)
        return min(ages)

    def silent_instances(self, seconds: float) -> list[str]:
        """Return the instances that are connected here and have sent nothing for this long."""
        before = self.now() - seconds
        return [each.instance_id for each in self.runners.values() if each.last_contact_at <= before]

    def silence(self, ref: AttemptRef, instance_id: str, age: float) -> tuple[float, bool]:
        """Return for how many seconds an attempt was silent, and whether its executor and its runner both disconnected.

        `age` is the value from the database: the time since the claim or the last contact with any server.
        """
        if ref in self.executors:
            return 0.0, False
        now = self.now()
        ages = [age, now - self.watching_since]
        closed_at = self._closed.get(ref)
        if closed_at is not None:
            ages.append(now - closed_at)
        session = self.runners.get(instance_id)
        is_named = session is not None and ref in session.reported_attempts
        if session is not None and is_named:
            ages.append(now - session.last_contact_at)
        return min(ages), closed_at is not None and not is_named and ref not in self._silent

    def reported_by(self, instances: Iterable[str]) -> Iterator[tuple[AttemptRef, str]]:
        """Yield the attempts that these instances report, whether they own them or not."""
        for instance_id in instances:
            if session := self.runners.get(instance_id):
                yield from ((ref, instance_id) for ref in islice(session.reported_attempts, MAX_REPORTED_ATTEMPTS))

    def _close(self, session: "RunnerSession | ExecutorSession", refs: Iterable[AttemptRef]) -> None:
        """Note that attempts were closed. If the session was silent since the last gap, it is unknown when; then it is silent."""
        if session.last_contact_at >= self.watching_since:
            now = self.now()
            self._closed |= dict.fromkeys(refs, now)


def _own(session: RunnerSession, refs: Iterable[AttemptRef]) -> Iterator[AttemptRef]:
    """Return the reported attempts that belong to jobs of this runner, because a runner could report any attempt."""
    return (ref for ref in refs if ref.job_id in session.active_jobs)
