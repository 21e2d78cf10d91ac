"""Builds an attempt that changes things and saves states, step by step."""

from terracrew.api.jobs import Attempt, Job
from terracrew.protocol.events import StateFact, StepStatus
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import decide
from terracrew.server.jobs.attempts import claims, received_states
from terracrew.server.principals.model import Principal
from terracrew.server.state.model import Received
from tests.builders.deliveries import delivery, fact, state
from tests.builders.job_rows import KEYS, Instance, JobRows, begin_code, change_jobs

APPLYING = fact(StepStatus(Step.APPLY, "RUNNING"))


class Change:
    """An apply whose first attempt has begun to change things."""

    def __init__(self, rows: JobRows, runner: Instance, module: str, job: str) -> None:
        self.rows, self.runner, self.module, self.job_id = rows, runner, module, job
        self.admin = Principal("user", "usr_1", "olga", rows.organization, is_system_admin=True)
        self.registry = Registry()
        self.take = rows.take
        self.next = 1

    @classmethod
    async def begun(cls, db: Database, interrupted: str = "ask") -> "Change":
        rows = await JobRows.make(db)
        await rows.administrators("usr_1")
        module = await rows.module()
        change = cls(rows, await rows.runner(slots=100), module, await rows.job(module, kind="APPLY"))
        await change_jobs(rows.db, interrupted=interrupted)
        await change.start(1)
        assert await begin_code(db, change.ref, 0) == "begun"
        await change.tell(APPLYING)
        return change

    def sealed(self, ref: AttemptRef, event: int) -> bytes:
        """The content of a state, as the hub would have encrypted it for its row."""
        context = claims.state_context(self.module, ref.job_id, ref.attempt, event)
        return KEYS.encrypt(b"{}", context)

    @property
    def ref(self) -> AttemptRef:
        return AttemptRef(self.job_id, 1)

    async def start(self, attempt: int, job_id: str | None = None) -> AttemptRef:
        self.next = 2
        return await self.runner.start(job_id or self.job_id, attempt)

    async def tell(self, *records: object) -> None:
        self.next = 1 + await self.take(delivery(self.ref, self.next, *records))  # type: ignore[arg-type]

    async def write(self, serial: int, origin: str = "engine", lineage: str = "a") -> None:
        record, _ = state(serial, lineage)
        told = StateFact("ab", 2, serial, lineage, is_inline=True, origin=origin, resources=3)  # type: ignore[arg-type]
        received = Received(told, self.sealed(self.ref, self.next), None)
        self.next = 1 + await self.take(delivery(self.ref, self.next, record, received={self.next: received}))

    async def gone(self, *, last: int | None, is_delivered: bool = True) -> None:
        report = decide.Report("the executor was ended by signal 9", last, is_delivered)
        await self.rows.gone(self.ref, report)

    async def attempt(self) -> Attempt:
        return (await self.rows.attempts(self.job_id))[0]

    async def job(self) -> Job:
        return await self.rows.load(self.job_id)

    async def code(self, ref: AttemptRef) -> str:
        """What an attempt that asks for a permit is told, from the state as it is now."""
        module = await self.rows.db.read(lambda tx: received_states.module_facts(tx, self.module))
        return await begin_code(self.rows.db, ref, module.state_version, registry=self.registry)
