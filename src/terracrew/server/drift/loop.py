"""Begins the checks of modules that are due, reads what they have found, and ends mutes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from terracrew.api.jobs import Job, JobOrigin, JobStatus, NewJob
from terracrew.errors import Invalid, TerracrewError
from terracrew.logging import get_logger
from terracrew.plan_diff.document import MAX_RESOURCES, DiffDocument, DiffQuery
from terracrew.plan_diff.model import ResourceDiff
from terracrew.protocol.spec import JobType
from terracrew.server.announcements.service import announce
from terracrew.server.db.seam import Database, Tx
from terracrew.server.drift import model, news, reads, service, store
from terracrew.server.drift.model import DriftModule, Findings
from terracrew.server.drift.reads import DueCheck, RunningCheck
from terracrew.server.identity.people import acting
from terracrew.server.jobs import create
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.create import JobRequest
from terracrew.server.jobs.plans import diff_store
from terracrew.server.objects import Objects
from terracrew.server.runners import seat_reads
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content
from terracrew.server.supervise import FailedRows
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.wording import plan_words

POLL_SECONDS = 2.0
"""How often the loop looks whether the job of a check has ended, or whether a module that is due is free."""
SWEEP_SECONDS = 30.0
MAX_CHECKS_PER_STEP = 50
MAX_QUEUED_SECONDS = 3600.0
"""A check that no runner has taken for so long is canceled, so that it does not keep others of its organization from starting."""
MIN_PRIORITY = -10
"""The priority of checks: jobs that people have asked for run first."""
_NOT_TAKEN = "no runner took this drift check within an hour"
log = get_logger("terracrew.drift")


class DriftChecks:
    """Several servers may run it on one database: each holds the row of a module, and creates the job of its check in the
    transaction that remembers it."""

    def __init__(
        self, db: Database, objects: Objects, keys: Keyring, roots: Sequence[Path], quotas: Quotas, percent: int
    ) -> None:
        """`percent`: how much of the slots that an organization's online runners have checks may use."""
        self._db, self._objects, self._keys, self._roots = db, objects, keys, roots
        self._quotas, self._percent = quotas, percent
        self._failed, self._failed_ends = FailedRows("drift checks"), FailedRows("ends of drift checks")

    async def run(self) -> None:
        with self._db.listen("drift") as wakeups:
            while True:
                is_waiting = await self.step()
                await wakeups.get(timeout=POLL_SECONDS if is_waiting else SWEEP_SECONDS)

    async def step(self) -> bool:
        """Do what can be done now, and return whether checks run or wait."""
        await self._db.write(lambda tx: service.end_due_mutes(tx, MAX_CHECKS_PER_STEP))
        await self._end_checks()
        for job_id in await self._db.read(lambda tx: reads.stuck(tx, MAX_QUEUED_SECONDS, MAX_CHECKS_PER_STEP)):
            await self._db.write(lambda tx, job_id=job_id: _give_up_job(tx, job_id))
        due, is_any_due = await self._db.read(self._due)
        ready = self._failed.due({each.module_id for each in due})
        for each in due:
            if each.module_id in ready:
                with self._failed.handling(each.module_id):
                    await self._db.write(lambda tx, each=each: self._begin(tx, each))
        return is_any_due or await self._db.read(reads.is_any_running)

    async def _due(self, tx: Tx) -> tuple[list[DueCheck], bool]:
        """Return the checks that can begin or are given up, and whether any is due. Each organization has its own slots, so that
        those of one that has none left do not hide those of the others."""
        found = await reads.too_late(tx, MAX_CHECKS_PER_STEP + len(self._failed))
        organizations = await reads.due_by_organization(tx)
        for each in organizations:
            slots = await seat_reads.online_slots(tx, each.organization_id)
            free = min(model.share(slots, self._percent) - each.running, MAX_CHECKS_PER_STEP)
            if free > 0:
                found += await reads.due(tx, each.organization_id, free + len(self._failed))
        return found, bool(organizations)

    async def _begin(self, tx: Tx, check: DueCheck) -> None:
        """Queue the job of a check, unless something has changed since it was read, or too many checks run by now."""
        await groups.hold_organization(
            tx, check.organization_id
        )  # so that another server does not count at the same time
        row = await store.hold(tx, check.module_id)
        if row is None or row.job_id is not None or row.due_at is None or row.due_at > tx.moment:
            return
        if row.give_up_at is not None and row.give_up_at <= tx.moment:
            await _refuse(tx, row, "the check was given up: it could not begin for a day")
            return
        if await reads.is_busy(tx, check.module_id):
            return
        slots = await seat_reads.online_slots(tx, check.organization_id)
        if await reads.running(tx, check.organization_id) >= model.share(slots, self._percent):
            return
        who = await acting.principal(tx, row.asked_by, row.organization_id)
        if who is None:
            await _refuse(tx, row, f"{row.asked_by_name}, who asked for the check, may not run jobs any more")
            return
        asked = NewJob(JobType.PLAN, MIN_PRIORITY, is_refresh_only=row.is_refresh_only)
        name = f"of the schedule {row.schedule_name}" if row.schedule_name else f"asked for by {row.asked_by_name}"
        origin = JobOrigin(kind="drift", name=name, id=row.schedule_id or "")
        request = JobRequest(who, row.module_id, asked, origin=origin)
        [made] = await create.create_all(tx, [request], keys=self._keys, roots=self._roots, quotas=self._quotas)
        if isinstance(made, TerracrewError):
            await _refuse(tx, row, made.message)
        else:
            await store.save(tx, replace(row, job_id=made.job.id))
            tx.wake("drift", row.module_id)

    async def _end_checks(self) -> None:
        count = MAX_CHECKS_PER_STEP + len(self._failed_ends)
        ended = await self._db.read(lambda tx: reads.ended(tx, count))
        due = self._failed_ends.due([each.module_id for each in ended])
        for each in ended:
            if each.module_id in due:
                with self._failed_ends.handling(each.module_id):
                    await self._end(each)

    async def _end(self, check: RunningCheck) -> None:
        job = None
        found, problem = None, "its job was deleted"
        if check.status is not None:
            job = await self._db.read(lambda tx: jobs.get(tx, check.job_id))
            found, problem = await self._found(job)
        result = await self._db.write(lambda tx: service.record(tx, check.module_id, job, found, problem))
        if result is not None:
            log.info(
                "a drift check has ended",
                module=check.module_id,
                drifted=result.drifted,
                differences=len(result.differences),
            )

    async def _found(self, job: Job) -> tuple[Findings | None, str]:
        """Return what a check has found, or why it has found nothing out."""
        if job.status is not JobStatus.SUCCEEDED:
            return None, f"job #{job.number} is {job.status}" + (f": {job.message}" if job.message else "")
        stored = await self._db.read(lambda tx: diff_store.get(tx, job.id))
        if stored is None:
            if not job.is_refresh_only and job.plan is not None and not plan_words.has_changes(job.plan):
                return Findings({}), ""
            return None, (
                f"job #{job.number} does not say what was changed outside: its runner has an older version of Terracrew, or its "
                "log says why the plan could not be described"
            )
        if stored.object is not None:
            plain = (await content.read_object(self._objects, self._keys, stored.module_id, stored.object)).content
        else:
            plain = self._keys.decrypt(stored.content or b"", diff_store.context(stored.job_id))
        try:
            return await asyncio.to_thread(read_findings, plain), ""
        except Invalid as error:
            return None, f"what job #{job.number} has found cannot be read: {error.message}"


def read_findings(document: bytes) -> Findings:
    """Return what the diff of a plan says by address: what was changed outside, and what would be changed."""
    found = DiffDocument(document)
    resources: list[ResourceDiff] = []
    for query in (DiffQuery(count=MAX_RESOURCES), DiffQuery("drift", count=MAX_RESOURCES)):
        resources += found.page(query).resources
    return model.findings(resources, is_complete=not found.head.left_out)


async def _give_up_job(tx: Tx, job_id: str) -> None:
    job = await jobs.hold_job_if_known(tx, job_id)
    if job is not None and job.status is JobStatus.QUEUED:
        await jobs.save_transition(tx, job, job.to(JobStatus.CANCELED, tx.moment, message=_NOT_TAKEN))


async def _refuse(tx: Tx, row: DriftModule, problem: str) -> None:
    """Say why a check does not begin."""
    after = replace(row.without_check(), problem=problem, problem_at=tx.moment)
    await store.save(tx, after)
    await announce(tx, *news.of_problem(row, after))
    tx.wake("drift", row.module_id)
