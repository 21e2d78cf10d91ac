"""Finds a run: its job, what was asked for at the prompt, and the job that applies its plan."""

from terracrew.api.job_views import JobView
from terracrew.api.jobs import Job, JobStatus
from terracrew.api.modules import Module
from terracrew.errors import Conflict
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import module_outputs
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs import store as job_store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import view
from terracrew.server.runs.reasons import Watch
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import store as state_store
from terracrew.server.terminals import names, statuses, store
from terracrew.server.terminals.model import Phase, TerminalRun
from terracrew.server.terminals.statuses import SeenRun
from terracrew.server.terminals.transcript import Transcripts
from terracrew.server.tree.modules import service as modules


async def seen(
    db: Database, transcripts: Transcripts, watch: Watch, who: Principal, run_id: str, verb: Verb = Verb.JOB_READ
) -> SeenRun:
    """Return what is known of a run, if the caller may do this with its job."""
    job_id = names.job_id(run_id)
    shown = await view.current(db, lambda tx: jobs.find(tx, who, job_id, verb), watch.for_reader(who))

    async def read(tx: Tx) -> tuple[TerminalRun, Job | None]:
        asked = await store.run(tx, shown.id) or _unasked(shown)
        applying = statuses.taken_by(shown.kept_plan) or asked.applied_by
        return asked, await job_store.get(tx, applying) if applying else None

    asked, applying = await db.read(read)
    is_single = shown.type is not JobType.PLAN
    is_changing = is_single and not _is_planning(shown) and await transcripts.boundary(shown.id) is not None
    return SeenRun(asked, shown, applying, _is_applicable(shown), is_changing)


def _is_planning(shown: JobView) -> bool:
    """Return whether it is certain that a job has not finished its first plan, so that its log need not be looked at."""
    return shown.status in (JobStatus.QUEUED, JobStatus.CLAIMED) and shown.attempt == 1 and shown.plan_attempt is None


def _is_applicable(shown: JobView) -> bool:
    if shown.is_refresh_only:
        return shown.status is JobStatus.SUCCEEDED
    return bool(shown.is_plan_applicable)


def _unasked(job: Job) -> TerminalRun:
    """Return what stands for the request of a job that was not started at a prompt."""
    is_plan = job.type is JobType.PLAN
    return TerminalRun(job_id=job.id, is_automatic=not is_plan, is_plan_only=is_plan)


async def job_of_log(tx: Tx, who: Principal, run_id: str, phase: Phase) -> tuple[str, bool]:
    """Return the job that the log of a phase is of, or '' if there is none yet, and whether that job both plans and applies."""
    job = await jobs.find(tx, who, run_id, Verb.JOB_READ)
    if job.type is not JobType.PLAN or phase == "plan":
        return job.id, job.type is not JobType.PLAN
    kept = None if job.plan_attempt is None else await plan_store.get(tx, job.id, job.plan_attempt)
    run = await store.run(tx, job.id)
    return statuses.taken_by(kept) or (run.applied_by if run else ""), False


async def delete_if_empty(tx: Tx, keys: Keyring, who: Principal, module_id: str) -> None:
    """Delete a module, unless it has resources, or may have some."""
    module = await modules.find(tx, who, module_id, Verb.TREE_WRITE)
    await modules.hold_at(tx, module.id, module.path)
    if why := await _what_it_may_have(tx, await modules.find(tx, who, module.id, Verb.TREE_WRITE)):
        raise Conflict(f"module `{module.path}` is not safe to delete: {why}")
    await module_outputs.delete_module(tx, keys, who, module.id, force=True)


async def _what_it_may_have(tx: Tx, module: Module) -> str:
    """Return why a module is not known to have no resources; an empty text if it has none."""
    if module.backend != "terracrew":
        return "its state is in a backend of its own, which only its engine can read"
    facts = await state_store.version_facts(tx, module.id)
    if facts.has_quarantine:
        return "one of its states is in quarantine: adopt or discard it first"
    if facts.is_locked or await jobs.lock(tx, module.id):
        return "it is locked, so its resources may be changing"
    if facts.lock_doubt:
        return f"{facts.lock_doubt}, and no state was written since"
    kept = await state_store.current(tx, module.id)
    if kept is None:
        return ""
    count = await state_store.resources(tx, kept.state.id)
    if count is None:
        return "its state cannot be read, for example because its engine has encrypted it"
    return "its state has resources" if count else ""
