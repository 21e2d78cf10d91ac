"""Simulated hosts with their runners and executors, which check from outside of the server who changes what."""

import msgspec

from terracrew import ids
from terracrew.api.jobs import Attempt
from terracrew.protocol import messages, version
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.server.scheduling.queue import Waiting
from terracrew.server.state import content
from terracrew.server.state import service as states
from tests.stateful.faulty_database import patient
from tests.stateful.link import KILLED, Link
from tests.stateful.server_under_test import KEYS, ServerUnderTest
from tests.stateful.simulated_connection import SimulatedConnection
from tests.stateful.simulated_executor import Executor
from tests.stateful.snapshot import Snapshot
from tests.stateful.stale_choice import ChosenInstance


class Host:
    """A machine with a runner on it. Executors outlive the runner's process, but not the machine."""

    def __init__(self, crew: "SimulatedRunners", name: str, runner: tuple[str, str]) -> None:
        self.crew, self.name = crew, name
        self.runner_id, self.token = runner
        self.key = ids.new("key")
        self.is_up, self.is_cut_off, self.is_draining, self.is_removed = True, False, False, False
        self.link: Link | None = None
        self.instance_id = ""
        self.received = 0
        """The grants of this connection."""
        self.journal: dict[AttemptRef, Executor] = {}

    @property
    def is_connected(self) -> bool:
        return self.link is not None and self.link.is_open

    async def connect(self) -> str:
        if self.is_cut_off:
            return "is cut off"
        await self.hang_up()
        self.link = link = Link(self.crew.site.server, self.token, messages.decode_to_runner)
        link.say(
            messages.RunnerHello(
                self.runner_id,
                self.name,
                self.key,
                "0",
                version.OLDEST_VERSION,
                version.NEWEST_VERSION,
                capacity=2,
                engines={"tofu": "1"},
                attempts=sorted(self.journal),
                is_draining=self.is_draining,
            )
        )
        welcome = await link.reply(lambda told: isinstance(told, messages.RunnerWelcome))
        if welcome is None:
            self.link = None
            return f"not let in: {link.refusal}"
        self.instance_id, self.received = welcome.instance_id, 0
        await link.quiet()  # until what it did not name is dealt with
        return "connected"

    async def claim(self, job_id: str, attempt: int, *, is_answer_received: bool = True) -> str:
        """Let the server claim a job for this runner, whatever it knows of both."""
        site = self.crew.site
        session = site.server.registry.runners.get(self.instance_id)
        if self.link is None or session is None:
            return "is not there"
        chosen = ChosenInstance(session, job_id)
        site.claiming.start(chosen, Waiting(job_id, 1, attempt, "", "", "", "", "tofu", 0, 0.0), session)
        if not is_answer_received:
            await self.hang_up()
            return "has a claim that it does not hear of"
        if not await chosen.is_claimed:
            return "has a claim that was refused"
        answer = await self.link.reply(
            lambda told: isinstance(told, Granted) and (told.spec.job_id, told.spec.attempt) == (job_id, attempt)
        )
        return "has gone before the grant" if answer is None else self._take(answer)

    async def send_credits(self, slots: int) -> str:
        """Send credits, perhaps for more slots than are free."""
        self.take_grants()
        if self.link is None or not self.link.is_open:
            return "has nobody to tell"
        self.link.say(messages.Credits(slots, self.received))
        await self.link.quiet()
        return f"sends {slots} credits"

    def take_grants(self) -> list[str]:
        """Take the grants of new jobs, with the next thing that this runner does."""
        granted = [] if self.link is None else self.link.read(Granted)
        self.crew.granted_when_created += len(granted)
        return [self._take(each) for each in granted]

    def _take(self, granted: Granted) -> str:
        self.received += 1
        executor = Executor(self.crew, self, granted)
        assert executor.ref not in self.crew.executors, "one attempt was granted twice"
        self.crew.executors[executor.ref] = self.journal[executor.ref] = executor
        return f"was granted {executor.name}"

    async def heartbeat(self, names: list[AttemptRef] | None = None) -> None:
        self.take_grants()
        if self.link is not None and self.link.is_open:
            self.link.say(messages.Heartbeat("0", self.is_draining, sorted(self.journal) if names is None else names))
            await self.link.quiet()

    async def report(
        self, ref: AttemptRef, *, saw_process: bool | None = None, is_delivered: bool | None = None
    ) -> str:
        """Hand back what never had a process; say of all others that they are gone. Until it is settled it stays in the journal.

        `is_delivered` is what the runner believes, which may be wrong. What is not delivered stays in the journal, too.
        """
        if self.link is None or not self.link.is_open:
            return "has nobody to tell"
        executor = self.journal[ref]
        saw_process = executor.process != "none" if saw_process is None else saw_process
        if saw_process:
            told = executor.is_delivered if is_delivered is None else is_delivered
            last = len(executor.outbox) or None
            self.link.say(messages.Gone(ref.job_id, ref.attempt, True, "no process is left", last, told))
        else:
            self.link.say(messages.HandBack(ref.job_id, ref.attempt, "could not be started"))
        await self.link.quiet()
        await self.crew.site.quiet()
        for settled in self.link.read(messages.Settled):
            known = self.journal.get(done := AttemptRef(settled.job_id, settled.attempt))
            if known is not None and (known.is_delivered or known.is_refused or known.process == "none"):
                del self.journal[done]
        return "reported gone" if saw_process else "handed back"

    async def crash(self) -> None:
        """Its runner's process alone."""
        self.is_up = False
        await self.hang_up()

    async def be_cut_off(self, code: int) -> None:
        """No word gets in or out; all that runs there goes on."""
        self.is_cut_off = True
        for executor in self.crew.executors.values():
            if executor.host is self:
                await executor.hang_up(code)
        await self.hang_up(code)

    async def lose_power(self, code: int = KILLED) -> None:
        self.is_up = False
        for executor in self.crew.executors.values():
            if executor.host is self:
                await executor.die(with_engine=True, code=code)
        await self.hang_up(code)

    def come_back(self, *, is_disk_empty: bool) -> None:
        self.is_up = True
        if is_disk_empty:
            self.journal, self.key = {}, ids.new("key")

    async def hang_up(self, code: int = KILLED) -> None:
        link, self.link = self.link, None
        if link is not None:
            await link.hang_up(code)


class Standing(msgspec.Struct, frozen=True):
    """What was known just before an executor asked for the permit."""

    snapshot: Snapshot
    heard: frozenset[AttemptRef]
    """Attempts that are connected, or named by a runner that is."""


class SimulatedRunners:
    def __init__(self, site: ServerUnderTest) -> None:
        self.site = site
        self.hosts: list[Host] = []
        self.executors: dict[AttemptRef, Executor] = {}
        self.granted_when_created = 0
        self.applied: dict[tuple[str, int], AttemptRef] = {}
        """Which plan was applied by whom."""
        self.named: dict[tuple[str, int], set[AttemptRef]] = {}
        """Which doubts the approval of a plan has named."""

    def seal(self, module_id: str, name: str, plain: bytes) -> bytes:
        return KEYS.encrypt(plain, content.context_of_object(module_id, name))

    async def current_state(self, module_id: str) -> tuple[int, bytes | None]:
        """Version and content, as `GET …/state` answers."""
        kept = await patient(lambda: self.site.real.read(lambda tx: states.kept(tx, module_id)))
        if kept is None:
            return 0, None
        return kept.state.version or 0, (await content.read(self.site.objects, KEYS, kept.context, kept.sealed)).content

    async def hang_up(self) -> None:
        for each in (*self.executors.values(), *self.hosts):
            await each.hang_up()

    # ---- rule 4, as seen from outside

    def heard(self) -> frozenset[AttemptRef]:
        found = {ref for ref, executor in self.executors.items() if executor.link is not None and executor.link.is_open}
        for session in self.site.server.registry.runners.values():
            if self.site.clock.now - session.last_contact_at < 50:
                found |= session.reported_attempts & {
                    r for r, e in self.executors.items() if e.host.instance_id == session.instance_id
                }
        return frozenset(found)

    async def standing(self, asker: SimulatedConnection) -> Standing:
        return Standing(await Snapshot.read(self.site.real), self.heard() - {asker.ref})

    async def begun(self, executor: SimulatedConnection, before: Standing, version: int) -> None:
        """The permit was given: to the current attempt, for the current state, where nothing is undecided."""
        was, now = before.snapshot, await Snapshot.read(self.site.real)
        job, attempt = now.jobs[executor.ref.job_id], now.attempts[executor.ref]
        assert job.is_active, f"the permit was given to {executor.name}, whose job is {job.status}"
        assert (job.attempt, attempt.ended_at) == (executor.ref.attempt, None), f"{executor.name} is superseded"
        assert attempt.begun_state_version == version
        known = was.attempts.get(executor.ref)
        if known is not None and known.begun_at is not None:
            return  # it had it already
        assert was.modules[job.module_id] == version, "the state has moved since it was planned"
        assert not was.quarantined(job.module_id), "a state in quarantine is undecided"
        assert was.jobs[job.id].cancel_mode is None, "it was canceled"
        doubts = was.doubts(job.module_id)
        has_waited = any(job_id == job.id for job_id, _ in was.plans)
        if doubts or job.needs_approval or has_waited:
            self._approved(executor, now, doubts)
        for doubt in doubts:
            ref = AttemptRef(doubt.job_id, doubt.number)
            assert doubt.is_gone or ref not in before.heard, (
                f"{ref} was given up and is heard, and {executor.name} began all the same"
            )

    def _approved(self, executor: SimulatedConnection, now: Snapshot, doubts: list[Attempt]) -> None:
        plan = now.plans.get((executor.ref.job_id, now.jobs[executor.ref.job_id].plan_attempt or 0))
        assert plan is not None, f"{executor.name} began without a plan that anybody saw"
        assert (plan.decision, plan.applied_by) == ("approved", executor.ref.attempt), (
            f"{executor.name} began with another plan than the one that was approved"
        )
        assert plan.decided_at is not None
        for doubt in doubts:
            assert doubt.ended_at is not None
            assert plan.decided_at > doubt.ended_at, "the approval is from before the fence"
            named = self.named.get((plan.job_id, plan.attempt), set())
            assert AttemptRef(doubt.job_id, doubt.number) in named, (
                f"the approval does not name the doubt {doubt.job_id}"
            )

    async def witness(self, executor: Executor) -> None:
        """An engine starts to change the world; nobody else may be doing that, unless a person took that upon themselves."""
        first = self.applied.setdefault(executor.plan, executor.ref)
        assert first == executor.ref, f"the plan of {executor.plan} is applied by {first} and by {executor.ref}"
        others = [
            other
            for other in self.executors.values()
            if other.has_mutated and other is not executor and other.spec.module_id == executor.spec.module_id
        ]
        if not others:
            return
        now = await Snapshot.read(self.site.real)
        for other in others:
            self.made_once(executor, other, now)
        for other in others:
            if not other.is_mutating:
                continue
            fenced = now.attempts[other.ref]
            assert fenced.ended_at is not None, f"{executor.name} and {other.name} change one module at once"
            assert not fenced.is_gone, f"{other.name} is said to be gone, and still changes things"
            assert _has_looked(now, executor.spec.module_id, fenced), (
                f"nobody has looked since {other.name} was fenced, which changes things, and so does {executor.name}"
            )

    def made_once(self, executor: Executor, other: Executor, now: Snapshot) -> None:
        """Rule 9: what the other has made is in a state that the server has, or a person has looked since."""
        attempt = now.attempts[other.ref]
        is_stored = attempt.mark >= other.last_state
        if is_stored and not other.has_unsaved:
            return
        is_retried = now.jobs[other.ref.job_id].interrupted == "retry"
        if is_retried and is_stored and attempt.is_gone:
            return
        assert attempt.ended_at is not None, f"{executor.name} and {other.name} change one module at once"
        assert _has_looked(now, executor.spec.module_id, attempt), (
            f"{other.name} made what no state has, and {executor.name} makes it again before a person has looked"
        )


def _has_looked(now: Snapshot, module_id: str, ended: Attempt) -> bool:
    """Whether a plan was applied that a person approved after this attempt had ended."""
    looked = [plan for plan in now.plans.values() if plan.applied_by and now.jobs[plan.job_id].module_id == module_id]
    return any(plan.decided_at and ended.ended_at and plan.decided_at > ended.ended_at for plan in looked)
