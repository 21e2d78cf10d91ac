"""Modules that are checked for drift by simulated plans, and by the loops of several servers."""

import asyncio
import hashlib
from typing import Any

from terracrew.plan_diff import document
from terracrew.plan_diff.document import PlanDescription
from terracrew.plan_diff.resources import PlannedResource
from terracrew.protocol.events import PlanDescribed, PlanSummary
from terracrew.server.drift.loop import DriftChecks
from tests.builders.deliveries import DONE, RUNNING, fact
from tests.plan_diff.plans import planned, unmasked
from tests.server.simulated_runner import SimulatedRunner

SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}
CHECKS, MUTES = "/api/v1/drift/checks", "/api/v1/drift/mutes"


class Checked:
    """A group `team` whose modules the test checks, as a runner and as two servers."""

    def __init__(self, runner: SimulatedRunner) -> None:
        self.runner, self.admin, self.server = runner, runner.app.admin, runner.server

    @classmethod
    async def make(cls, runner: SimulatedRunner, *names: str, **settings: Any) -> "Checked":
        made = cls(runner)
        await made.admin.made("/api/v1/groups", {"path": "team"})
        for name in names or ("one",):
            await made.admin.made("/api/v1/modules", {"path": f"team/{name}", "source": SOURCE, **settings})
        return made

    async def ask(self, place: str = "team/one", **more: Any) -> Any:
        answer = await self.admin.post(CHECKS, json={"place": place, **more})
        assert answer.status_code == 202, answer.text
        return answer.json()

    async def step(self, servers: int = 2, percent: int = 25) -> None:
        server = self.server
        roots, quotas = server.settings.local_roots, server.quotas
        loops = [DriftChecks(server.db, server.objects, server.keys, roots, quotas, percent) for _ in range(servers)]
        await asyncio.gather(*(loop.step() for loop in loops))

    async def show(self, name: str = "one") -> dict[str, Any]:
        return (await self.admin.get(f"/api/v1/drift/modules/team%2F{name}")).json()

    async def open_jobs(self) -> list[dict[str, Any]]:
        return [each for each in await self.admin.listed("/api/v1/jobs") if each["status"] == "QUEUED"]

    async def end(self, *drift: PlannedResource, name: str = "one", described: bool = True) -> dict[str, Any]:
        """The runner makes the plan of the check, and the servers read it."""
        job_id = (await self.show(name))["check"]["job_id"]
        attempt = await self.runner.again(job_id)
        content = document.build(PlanDescription([], drift=drift), unmasked)
        facts = [fact(PlanSummary())]
        if described:
            facts.append(fact(PlanDescribed(hashlib.sha256(content).hexdigest(), content)))
        await attempt.deliver(RUNNING, *facts, DONE)
        await self.step()
        return await self.show(name)

    async def check(self, *drift: PlannedResource, name: str = "one", **more: Any) -> dict[str, Any]:
        await self.ask(f"team/{name}", **more)
        await self.step()
        return await self.end(*drift, name=name)


def differs(address: str = "aws_vpc.main", after: str = "big") -> PlannedResource:
    return planned({"size": "small"}, {"size": after}, address=address)
