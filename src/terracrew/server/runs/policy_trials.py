"""Tries a policy on earlier plans, before it is activated. Nothing is stored and no job is touched."""

import asyncio
import contextlib

from terracrew.api.jobs import Job
from terracrew.api.policies import PolicyTrial, PolicyTrialResult, PolicyVersionTrial, TriedPlan
from terracrew.errors import NotFound, RateLimited, TerracrewError
from terracrew.server import time_zones
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs.attempts.policy_checks import PolicyChecks
from terracrew.server.jobs.plans import json_store
from terracrew.server.policies import service
from terracrew.server.policies import store as policy_store
from terracrew.server.policies.opa import Opa, PolicyOutcome
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import tree_path as paths

TRIAL_SECONDS = 20.0
"""How long a trial takes at most. What it has found by then is the answer."""
MAX_BATCH_BYTES = 16 << 20
"""How much of plans is evaluated together."""
RETRY_AFTER_SECONDS = 5


class PolicyTrials:
    def __init__(self, db: Database, checks: PolicyChecks, opa: Opa) -> None:
        self._db, self._checks, self._opa = db, checks, opa
        self._busy: set[str] = set()

    async def try_rego(self, who: Principal, asked: PolicyTrial) -> PolicyTrialResult:
        """Try Rego that is no version of a policy yet."""
        place = paths.parse(asked.place.strip("/"))

        async def begin(tx: Tx) -> None:
            at = await service.place(tx, who, place, Verb.TREE_WRITE)
            await authorize.require(tx, who, Verb.STATE_READ, at)

        await self._db.read(begin)
        time_zones.zone(asked.time_zone)
        await self._opa.check(asked.rego, who.organization_id or "")
        return await self._run(who, who.organization_id or "", place, asked.rego, asked.last, asked.time_zone)

    async def try_version(self, who: Principal, reference: str, asked: PolicyVersionTrial) -> PolicyTrialResult:
        """Try a version of a policy on plans of its place."""

        async def begin(tx: Tx) -> tuple[str, str, str, str]:
            found = await service.find(tx, who, reference, Verb.TREE_WRITE)
            await authorize.require(tx, who, Verb.STATE_READ, found.at)
            number = asked.version or found.newest_version
            version = await policy_store.version(tx, found.id, number)
            if version is None:
                raise NotFound(f"the policy {found.path} has no version {number}")
            return found.organization_id, found.place, version.rego, found.time_zone

        organization_id, place, rego, time_zone = await self._db.read(begin)
        await self._opa.check(rego, organization_id)
        return await self._run(who, organization_id, place, rego, asked.last, time_zone)

    async def _run(
        self, who: Principal, organization_id: str, place: str, rego: str, last: int, time_zone: str
    ) -> PolicyTrialResult:
        """Each principal has one trial at a time. The messages may have anything of the plans, so it takes the right to read states."""
        if who.id in self._busy:
            raise RateLimited(
                "you have asked for another trial that is not done yet: try again when it is",
                retry_after=RETRY_AFTER_SECONDS,
            )
        self._busy.add(who.id)
        found: list[tuple[Job, str, PolicyOutcome]] = []
        is_complete = False
        try:
            job_ids = await self._db.read_in_background(
                lambda tx: json_store.newest_of_place(tx, organization_id, place, last)
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TRIAL_SECONDS):
                    await self._try_all(organization_id, job_ids, rego, time_zone, found)
                    is_complete = True
        finally:
            self._busy.discard(who.id)
        return _result(found, is_complete=is_complete)

    async def _try_all(
        self,
        organization_id: str,
        job_ids: list[str],
        rego: str,
        time_zone: str,
        found: list[tuple[Job, str, PolicyOutcome]],
    ) -> None:
        batch: list[tuple[Job, str, bytes]] = []
        for index, job_id in enumerate(job_ids):
            with contextlib.suppress(TerracrewError):  # its content was removed in the meantime, or cannot be read
                if (one := await self._checks.earlier(job_id, time_zone)) is not None:
                    batch.append(one)
            is_full = sum(len(given) for _, _, given in batch) >= MAX_BATCH_BYTES
            if batch and (is_full or index == len(job_ids) - 1):
                outcomes = await self._opa.evaluate(
                    rego,
                    [given for _, _, given in batch],
                    TRIAL_SECONDS,
                    organization_id=organization_id,
                    is_background=True,
                )
                found += [(job, path, each) for (job, path, _), each in zip(batch, outcomes, strict=True)]
                batch = []


def _result(found: list[tuple[Job, str, PolicyOutcome]], *, is_complete: bool) -> PolicyTrialResult:
    counts = {name: sum(each.verdict == name for _, _, each in found) for name in ("denied", "warned", "failed")}
    shown = [
        TriedPlan(
            job_id=job.id,
            number=job.number,
            module_path=path,
            type=job.type.value,
            made_at=job.finished_at or job.started_at or job.queued_at,
            verdict=each.verdict,
            messages=each.messages,
        )
        for job, path, each in found
        if each.verdict != "passed"
    ]
    return PolicyTrialResult(
        tried=len(found),
        denied=counts["denied"],
        warned=counts["warned"],
        failed=counts["failed"],
        is_complete=is_complete,
        plans=shown,
    )
