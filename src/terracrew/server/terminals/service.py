"""What a command line asks for: an upload, a run, and yes, no or stop."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.api.jobs import ApplyPlan, Job, JobStatus, NewJob
from terracrew.api.modules import ModuleChange
from terracrew.api.plan_options import PlanOptions
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.protocol.spec import ArchiveSource, JobType
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import approvals
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.apply_plan import Apply
from terracrew.server.jobs.create import Create, JobRequest
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.terminals import literals, statuses, store
from terracrew.server.terminals.model import ConfigurationVersion, TerminalRun
from terracrew.server.terminals.statuses import SeenRun
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.modules import archives
from terracrew.server.tree.modules import service as modules
from terracrew.server.uploads import service as uploads
from terracrew.server.uploads.service import Staging


@dataclass(frozen=True)
class TerminalTools:
    db: Database
    staging: Staging
    quotas: Quotas
    registry: Registry
    folder: Path
    """Where uploads are written until they are inspected."""
    create_job: Create
    apply_plan: Apply


class RunWanted(PlanOptions, frozen=True, kw_only=True):
    """What a command line asks of a run."""

    module_id: str
    version_id: str
    """The configuration version; empty for the source that the module has."""
    is_automatic: bool = False
    is_saved: bool = False
    is_plan_only: bool = False
    is_destroy: bool = False
    message: str = ""
    variables: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Names of variables with their values as literals of HCL."""


async def new_version(tx: Tx, who: Principal, module_id: str, *, is_speculative: bool) -> ConfigurationVersion:
    """Announce an upload. To run other code with the credentials of a module is as much as to change the module."""
    module = await modules.find(tx, who, module_id, Verb.TREE_WRITE)
    made = ConfigurationVersion(
        id=ids.new("cfv"),
        organization_id=module.organization_id,
        module_id=module.id,
        created_by=who.id,
        created_at=tx.moment,
        is_speculative=is_speculative,
    )
    await store.insert_version(tx, made)
    return made


async def version(tx: Tx, who: Principal, version_id: str) -> ConfigurationVersion:
    unseen = NotFound(f"there is no configuration version {version_id[:50]}")
    found = await store.version(tx, version_id)
    if found is None:
        raise unseen
    await modules.find(tx, who, found.module_id, Verb.TREE_READ, unseen)
    return found


async def receive(tools: TerminalTools, who: Principal, version_id: str, body: AsyncIterator[bytes]) -> None:
    """Store the files of a configuration version. Only the first upload counts."""
    found = await tools.db.read(lambda tx: version(tx, who, version_id))
    if found.archive_id is not None:
        raise Conflict("the files of this configuration version have been uploaded already")
    received = await uploads.body(tools.staging, body, who.id, "", archives.TARGET)
    archive = await archives.keep(tools.staging, tools.quotas, tools.folder, who, found.organization_id, received)
    await tools.db.write(lambda tx: store.fill_version(tx, found.id, archive.id, is_empty=archive.configurations == []))


async def start(tools: TerminalTools, who: Principal, wanted: RunWanted) -> Job:
    """Start a run. If the plan is applied without a question, one job plans and applies; otherwise the job only plans, and `confirm`
    lets another job apply exactly that plan."""
    module = await tools.db.read(lambda tx: modules.find(tx, who, wanted.module_id, Verb.JOB_RUN))
    given = None
    if wanted.version_id:
        given = await tools.db.read(lambda tx: version(tx, who, wanted.version_id))
        if given.module_id != module.id or given.archive_id is None:
            raise Invalid("the configuration version is one of another module, or nothing was uploaded for it")
    is_plan = wanted.is_plan_only or wanted.is_saved or not wanted.is_automatic
    kind = JobType.PLAN if is_plan else JobType.DESTROY if wanted.is_destroy else JobType.APPLY
    asked = NewJob(
        kind,
        source=_source(given, is_destroy=wanted.is_destroy),
        is_destroy_plan=is_plan and wanted.is_destroy,
        is_refresh_only=wanted.is_refresh_only,
        targets=wanted.targets,
        replace=wanted.replace,
        refresh=wanted.refresh,
        inputs={name: literals.read(name, text) for name, text in wanted.variables.items()},
    )
    created = await tools.create_job(
        JobRequest(who, module.id, asked, _key(wanted, asked), needs_plan_json=is_plan and wanted.is_saved)
    )
    run = TerminalRun(
        job_id=created.job.id,
        configuration_version_id=wanted.version_id,
        is_automatic=not is_plan,
        is_saved=wanted.is_saved,
        is_plan_only=wanted.is_plan_only,
        message=wanted.message[:1000],
    )

    async def work(tx: Tx) -> None:
        await store.insert_run(tx, run)
        if not is_plan and given is not None:
            await _adopt(tx, who, tools, module.id, created.job)

    await tools.db.write(work)
    return created.job


def _source(given: ConfigurationVersion | None, *, is_destroy: bool) -> ArchiveSource | None:
    """Return the source of the run. A destroy without any configuration runs what the module has."""
    if given is None or given.archive_id is None or (given.is_empty and is_destroy):
        return None
    return ArchiveSource(given.archive_id)


def _key(wanted: RunWanted, asked: NewJob) -> str | None:
    """Return what makes a repeated request the same one: command lines repeat every request whose answer they did not get."""
    if not wanted.version_id:
        return None
    said = hashlib.sha256(msgspec.json.encode([wanted, asked.type])).hexdigest()
    return f"{wanted.version_id}.{said[:32]}"


async def _adopt(tx: Tx, who: Principal, tools: TerminalTools, module_id: str, job: Job) -> None:
    """Make what a run applies the source of its module, if the source of that is uploads. Later jobs then run the same."""
    module = await modules.find(tx, who, module_id, Verb.TREE_WRITE)
    if not isinstance(module.source, ArchiveSource) or not isinstance(job.source, ArchiveSource):
        return
    change = ModuleChange(source=msgspec.structs.replace(job.source, subdirectory=module.source.subdirectory))
    await modules.change(tx, who, module_id, change, (), tools.staging.keys)


async def confirm(tools: TerminalTools, who: Principal, seen: SeenRun) -> None:
    """Apply the plan of a run, or count this as an approval if the run waits for one."""
    job = seen.job
    if seen.is_single:
        if job.status is not JobStatus.AWAITING_APPROVAL or job.plan_attempt is None:
            raise Conflict(f"job {job.number} does not wait for an answer: it is {job.status}")
        await approvals.approve(tools.db, tools.registry, who, job.id, job.plan_attempt, [], "")
        return
    if seen.run.is_plan_only:
        raise Conflict(f"job {job.number} only shows a plan: run apply")
    if seen.run.discarded_by:
        raise Conflict(f"{seen.run.discarded_by} has discarded the plan of job {job.number}")
    if job.is_refresh_only:
        applying = await _refresh(tools, who, job)
    else:
        applying = (await tools.apply_plan(who, job.id, ApplyPlan(is_destroy=job.is_destroy_plan))).job

    async def work(tx: Tx) -> None:
        if job.is_refresh_only:
            await store.set_applied(tx, job.id, applying.id)
        if seen.run.configuration_version_id:
            await _adopt(tx, who, tools, job.module_id, applying)

    await tools.db.write(work)


async def _refresh(tools: TerminalTools, who: Principal, planned: Job) -> Job:
    """Record in the state what a plan that only refreshes has shown. It cannot change anything else, so it is made again."""
    source = planned.source if planned.has_own_source else None
    asked = NewJob(JobType.APPLY, source=source, is_refresh_only=True, targets=planned.targets)
    return (await tools.create_job(JobRequest(who, planned.module_id, asked, f"refresh.{planned.id}"))).job


async def discard(tools: TerminalTools, who: Principal, seen: SeenRun) -> None:
    """End a run without applying its plan."""
    job = seen.job
    if seen.is_single and job.status is JobStatus.AWAITING_APPROVAL and job.plan_attempt is not None:
        await approvals.decline(tools.db, who, job.id, job.plan_attempt, "discarded at the prompt")
        return
    if not statuses.is_confirmable(seen):
        raise Conflict(f"job {job.number} has no plan that waits for an answer")

    async def work(tx: Tx) -> None:
        await jobs.find(tx, who, job.id, Verb.JOB_RUN)
        if await store.hold_run(tx, job.id) is None:
            raise Conflict(f"job {job.number} was not started at a prompt: nothing waits for an answer")
        await store.set_discarded(tx, job.id, who.name)

    await tools.db.write(work)


async def cancel(tools: TerminalTools, who: Principal, seen: SeenRun, *, is_forced: bool = False) -> None:
    await jobs.cancel(tools.db, who, (seen.applying or seen.job).id, "kill" if is_forced else "interrupt")


def refuse_engines(who: Principal) -> None:
    """Refuse the credential of a job, with which the engine of that job reads only."""
    if who.attempt is not None:
        raise Forbidden("the credential of a job can only read its own module: it starts no runs and changes nothing")
