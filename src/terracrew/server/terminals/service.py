"""What a command line asks for: an upload, a run, and yes, no or stop."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.api.jobs import ApplyPlan, Job, NewJob, plain
from terracrew.api.plan_options import PlanOptions
from terracrew.engine_rules import hcl_literals
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError
from terracrew.protocol.spec import ArchiveSource, JobType
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.apply_plan import apply_plan
from terracrew.server.jobs.create import Create, JobRequest, create_all
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.terminals import statuses, store
from terracrew.server.terminals.model import ConfigurationVersion, TerminalRun
from terracrew.server.terminals.statuses import SeenRun
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.modules import archives
from terracrew.server.tree.modules import service as modules
from terracrew.server.uploads import service as uploads
from terracrew.server.uploads.service import Staging

MAX_MESSAGE_CHARACTERS = 1_000
_UPLOADED = "the files of this configuration version have been uploaded already"


@dataclass(frozen=True)
class TerminalTools:
    db: Database
    staging: Staging
    quotas: Quotas
    registry: Registry
    folder: Path
    """Where uploads are written until they are inspected."""
    roots: Sequence[Path]
    create_job: Create


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
    await tools.db.read(lambda tx: modules.find(tx, who, found.module_id, Verb.TREE_WRITE))
    if found.archive_id is not None:
        raise Conflict(_UPLOADED)
    received = await uploads.body(tools.staging, body, who.id, "", archives.TARGET)
    archive = await archives.keep(tools.staging, tools.quotas, tools.folder, who, found.organization_id, received)
    is_empty = archive.configurations == []
    if not await tools.db.write(lambda tx: store.fill_version(tx, found.id, archive.id, is_empty=is_empty)):
        raise Conflict(_UPLOADED)  # what this request has sent is removed like every archive that nobody uses


async def start(tools: TerminalTools, who: Principal, wanted: RunWanted) -> Job:
    """Start a run. If the plan is applied without a question, one job plans and applies; otherwise the job only plans, and `confirm`
    lets another job apply exactly that plan."""
    module = await tools.db.read(lambda tx: modules.find(tx, who, wanted.module_id, Verb.JOB_RUN))
    given = None
    if wanted.version_id:
        given = await tools.db.read(lambda tx: version(tx, who, wanted.version_id))
        if given.module_id != module.id or given.archive_id is None:
            raise Invalid("the configuration version is one of another module, or nothing was uploaded for it")
    is_plan_only = wanted.is_plan_only or (given is not None and given.is_speculative)
    is_plan = is_plan_only or wanted.is_saved or not wanted.is_automatic
    kind = JobType.PLAN if is_plan else JobType.DESTROY if wanted.is_destroy else JobType.APPLY
    source = _source(given, module.source.subdirectory, is_destroy=wanted.is_destroy)
    asked = NewJob(
        kind,
        source=source,
        is_destroy_plan=is_plan and wanted.is_destroy,
        is_refresh_only=wanted.is_refresh_only,
        targets=wanted.targets,
        replace=wanted.replace,
        refresh=wanted.refresh,
        inputs={name: hcl_literals.read(name, text) for name, text in wanted.variables.items()},
    )
    created = await tools.create_job(
        JobRequest(who, module.id, asked, _key(wanted, asked), needs_plan_json=is_plan and wanted.is_saved)
    )
    is_whole_apply = not (is_plan_only or wanted.is_saved or wanted.is_destroy)
    run = TerminalRun(
        job_id=created.job.id,
        configuration_version_id=wanted.version_id,
        is_automatic=not is_plan,
        is_saved=wanted.is_saved,
        is_plan_only=is_plan_only,
        message=plain(wanted.message)[:MAX_MESSAGE_CHARACTERS],
        is_adopting=source is not None and is_whole_apply,
    )

    async def work(tx: Tx) -> None:
        await store.insert_run(tx, run)
        tx.wake("terminals", run.job_id)

    await tools.db.write(work)
    return created.job


def _source(given: ConfigurationVersion | None, subdirectory: str, *, is_destroy: bool) -> ArchiveSource | None:
    """Return the source of the run. A destroy without any configuration runs what the module has.

    Command lines upload the whole of which the working directory of the module is a part.
    """
    if given is None or given.archive_id is None or (given.is_empty and is_destroy):
        return None
    return ArchiveSource(given.archive_id, subdirectory)


def _key(wanted: RunWanted, asked: NewJob) -> str | None:
    """Return what makes a repeated request the same one: command lines repeat every request whose answer they did not get."""
    if not wanted.version_id:
        return None
    said = hashlib.sha256(msgspec.json.encode([wanted, asked.type])).hexdigest()
    return f"{wanted.version_id}.{said[:32]}"


async def confirm(tools: TerminalTools, who: Principal, seen: SeenRun) -> None:
    """Apply the plan that a run has shown. A job that waits for approvals is approved where people see what it waits with."""
    job = seen.job
    if seen.is_single:
        raise Conflict(
            f"job {job.number} needs no answer at the prompt. If it waits for an approval, give it on the page of the job"
        )
    if seen.run.is_plan_only:
        raise Conflict(f"job {job.number} only shows a plan: run apply")

    async def work(tx: Tx) -> None:
        run = await store.hold_run(tx, job.id)
        if run is not None and run.discarded_by:
            raise Conflict(f"{run.discarded_by} has discarded the plan of job {job.number}")
        if not job.is_refresh_only:
            asked = ApplyPlan(is_destroy=job.is_destroy_plan)
            await apply_plan(
                tx, tools.registry, who, job.id, asked, keys=tools.staging.keys, roots=tools.roots, quotas=tools.quotas
            )
        elif run is None or not run.applied_by:
            await store.set_applied(tx, job.id, await _refresh(tx, tools, who, job))
        if run is not None and run.configuration_version_id and not job.is_destroy_plan:
            await store.begin_adoption(tx, job.id)
        tx.wake("terminals", job.id)

    await tools.db.write(work)


async def _refresh(tx: Tx, tools: TerminalTools, who: Principal, planned: Job) -> str:
    """Record in the state what a plan that only refreshes has shown. It cannot change anything else, so it is made again.

    Returns the id of the job, which has the inputs of the plan.
    """
    source = planned.source if planned.has_own_source else None
    asked = NewJob(JobType.APPLY, source=source, is_refresh_only=True, targets=planned.targets)
    request = JobRequest(who, planned.module_id, asked, repeats=planned.id)
    [created] = await create_all(tx, [request], keys=tools.staging.keys, roots=tools.roots, quotas=tools.quotas)
    if isinstance(created, TerracrewError):
        raise created
    return created.job.id


async def discard(tools: TerminalTools, who: Principal, seen: SeenRun) -> None:
    """End a run without applying its plan, so that nobody applies it later."""
    job = seen.job
    if not statuses.is_confirmable(seen):
        raise Conflict(f"job {job.number} has no plan that waits for an answer")

    async def work(tx: Tx) -> None:
        await jobs.find(tx, who, job.id, Verb.JOB_RUN)
        run = await store.hold_run(tx, job.id)
        if run is None or run.applied_by:
            raise Conflict(
                f"the plan of job {job.number} is applied, or was not made at a prompt: nothing waits for an answer"
            )
        kept = None if job.plan_attempt is None else await plan_store.get(tx, job.id, job.plan_attempt)
        if kept is not None:
            await plan_store.discard(tx, kept, who.name)
        await store.set_discarded(tx, job.id, who.name)

    await tools.db.write(work)


async def cancel(tools: TerminalTools, who: Principal, seen: SeenRun, *, is_forced: bool = False) -> None:
    await jobs.cancel(tools.db, who, (seen.applying or seen.job).id, "kill" if is_forced else "interrupt")
