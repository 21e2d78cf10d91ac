"""Has policies look at the plans of PLAN jobs, so that people read what would become of them before they apply them.

Nothing depends on it: whatever it has said, policies look again before a plan is applied.
"""

from collections.abc import Awaitable, Callable

from terracrew.errors import Conflict
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs.attempts.policy_checks import LookedAt, PolicyChecks
from terracrew.server.jobs.plans import json_store
from terracrew.server.jobs.plans.json_store import StoredPlanJson
from terracrew.server.policies import store as policy_store
from terracrew.server.supervise import FailedRows

SWEEP_SECONDS = 30.0
RETRY_SECONDS = 5.0
"""How soon plans are tried again at which policies could not look, because the server was busy or the object store away."""
MAX_PLANS_PER_STEP = 50
OnVerdict = Callable[[Tx, str], Awaitable[None]]


class PlanVerdicts:
    """Takes the rows of `plan_json` that await policies. Several servers may do so: the first one that is done with a row keeps what
    it has found, and the same comes out on each of them."""

    def __init__(self, db: Database, checks: PolicyChecks, on_verdict: OnVerdict) -> None:
        """`on_verdict` is called with the id of each job about whose plan something is known now."""
        self._db, self._checks, self._on_verdict = db, checks, on_verdict
        self._failed = FailedRows("plan verdicts")

    async def run(self) -> None:
        with self._db.listen("plan_verdicts") as wakeups:
            while True:
                if await self.step() < MAX_PLANS_PER_STEP:
                    await wakeups.get(timeout=RETRY_SECONDS if self._failed else SWEEP_SECONDS)

    async def step(self) -> int:
        """Look at the plans that await it, and return how many there were."""
        count = MAX_PLANS_PER_STEP + len(self._failed)
        found = await self._db.read_in_background(lambda tx: json_store.awaiting_policies(tx, count))
        due = self._failed.due(found)
        for job_id in found:
            if job_id in due:
                with self._failed.handling(job_id):
                    await self._look(job_id)
        return len(due)

    async def _look(self, job_id: str) -> None:
        found = await self._checks.look_at_plan(job_id)
        if found is None:
            return
        stored, looked = found
        if looked.waits_for:
            raise Conflict(f"policies could not look at the plan of {job_id}: {looked.waits_for}")
        await self._db.write(lambda tx: self._keep(tx, stored, looked))

    async def _keep(self, tx: Tx, stored: StoredPlanJson, looked: LookedAt) -> None:
        if not await json_store.end_wait_for_policies(tx, stored) or not looked.results:
            return
        await policy_store.save_results(tx, looked.results)
        await self._on_verdict(tx, stored.job_id)
        tx.wake("jobs", stored.job_id)
