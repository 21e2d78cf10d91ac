"""All that the database says about jobs and states, as it was at one moment."""

from terracrew.api.job_views import Reason
from terracrew.api.jobs import Attempt, Job, Plan
from terracrew.api.states import State
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.figures import reads as figures
from terracrew.server.figures.model import DAY_SECONDS, merged
from terracrew.server.jobs import attempt_store, store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.runs import reasons
from terracrew.server.runs.reasons import Watch
from terracrew.server.state import store as states
from tests.stateful.faulty_database import patient


class Snapshot:
    def __init__(self) -> None:
        self.modules: dict[str, int] = {}
        """State versions."""
        self.jobs: dict[str, Job] = {}
        self.attempts: dict[AttemptRef, Attempt] = {}
        self.plans: dict[tuple[str, int], Plan] = {}
        self.states: dict[str, State] = {}
        self.outputs: dict[str, str] = {}
        """Of each job, who read them last."""
        self.chunks: dict[AttemptRef, list[tuple[int, int]]] = {}
        self.reasons: dict[str, Reason | None] = {}
        self.counted: dict[str, int] = {}
        """How many jobs have ended, by status, as the figures say."""

    @classmethod
    async def read(cls, db: Database, watch: Watch | None = None) -> "Snapshot":
        """With the reasons of what waits, for who watches."""
        return await patient(lambda: db.read(lambda tx: cls._read(tx, watch)))

    @classmethod
    async def _read(cls, tx: Tx, watch: Watch | None) -> "Snapshot":
        now = cls()
        now.modules = {row["id"]: row["state_version"] for row in await tx.all("SELECT id, state_version FROM modules")}
        now.jobs = {job.id: job for job in rows_to(Job, await tx.all("SELECT " + store.JOBS.columns + " FROM jobs"))}
        for attempt in rows_to(Attempt, await tx.all("SELECT " + attempt_store.ATTEMPTS.columns + " FROM attempts")):
            now.attempts[AttemptRef(attempt.job_id, attempt.number)] = attempt
        now.plans = {
            (plan.job_id, plan.attempt): plan
            for plan in rows_to(Plan, await tx.all("SELECT " + plan_store.PLANS.columns + " FROM plans"))
        }
        now.states = {
            state.id: state
            for state in rows_to(State, await tx.all("SELECT " + states.STATES.columns + " FROM states"))
        }
        now.outputs = {row["job_id"]: row["sha256"] for row in await tx.all("SELECT job_id, sha256 FROM outputs")}
        rows = await tx.all("SELECT job_id, attempt, first, last FROM log_chunks ORDER BY job_id, attempt, first")
        for row in rows:
            found = now.chunks.setdefault(AttemptRef(row["job_id"], row["attempt"]), [])
            found.append((row["first"], row["last"]))
        for root in await tx.all("SELECT id, organization_id FROM groups WHERE path = ''"):
            sums = await figures.sums(tx, root["organization_id"], [root["id"]], DAY_SECONDS, 0)
            ended = merged(item for amounts in sums.values() for item in amounts.items()).ended
            now.counted = {status: now.counted.get(status, 0) + count for status, count in ended.items()} | {
                status: count for status, count in now.counted.items() if status not in ended
            }
        if watch is not None:
            waiting = [job for job in now.jobs.values() if not job.is_terminal]
            now.reasons = {job.id: await reasons.why(tx, job, watch) for job in waiting}
        return now

    def current(self, module_id: str) -> State | None:
        found = [state for state in self.of_module(module_id) if state.status == "current"]
        assert len(found) <= 1
        return found[0] if found else None

    def of_module(self, module_id: str) -> list[State]:
        return [state for state in self.states.values() if state.module_id == module_id]

    def quarantined(self, module_id: str) -> list[State]:
        return [state for state in self.of_module(module_id) if state.status == "quarantined"]

    def doubts(self, module_id: str) -> list[Attempt]:
        """Attempts that were fenced after their `begin` and are not known to be gone."""
        return [
            attempt
            for attempt in self.attempts.values()
            if attempt.is_in_doubt and self.jobs[attempt.job_id].module_id == module_id
        ]

    def is_current(self, ref: AttemptRef) -> bool:
        job, attempt = self.jobs[ref.job_id], self.attempts.get(ref)
        return attempt is not None and job.is_active and job.attempt == ref.attempt and attempt.ended_at is None

    def mutating(self, module_id: str) -> list[Attempt]:
        """Attempts between their `begin` and their end."""
        return [
            attempt
            for ref, attempt in self.attempts.items()
            if attempt.begun_at is not None
            and self.is_current(ref)
            and self.jobs[attempt.job_id].module_id == module_id
        ]
