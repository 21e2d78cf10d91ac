"""Follows the jobs of a pull request, and notices when a plan no longer says what an apply would do."""

from terracrew.server.db.seam import Tx
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.pull_requests import decide, planning, store
from terracrew.server.pull_requests.model import PullRequestSubject, TouchedModule
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.tree.modules import reads as module_reads

_STALE = "the state of the module has changed since it was planned"
_STALE_AND_MERGED = f"{_STALE}, and the pull request is merged: start an apply of the module"


async def follow(tools: PullRequestTools, subject: PullRequestSubject) -> list[TouchedModule]:
    """Write what has become of the jobs, and return the modules of the pull request."""
    return await tools.db.write(lambda tx: _follow(tx, tools, subject))


async def _follow(tx: Tx, tools: PullRequestTools, subject: PullRequestSubject) -> list[TouchedModule]:
    row = await planning.held(tx, tools, subject)
    before = await store.modules_of(tx, row.id)
    ids = [each for one in before for each in (one.plan_job_id, one.apply_job_id) if each is not None]
    found = {each.id: each for each in await jobs.get_many(tx, ids)}
    plan_ids = [each.plan_job_id for each in before if each.plan_job_id is not None]
    made_from = await plan_store.state_versions(tx, plan_ids)
    versions = await module_reads.state_versions(tx, [each.module_id for each in before])
    after: list[TouchedModule] = []
    for each in before:
        plan, apply = found.get(each.plan_job_id or ""), found.get(each.apply_job_id or "")
        new = decide.after_jobs(each, plan, apply, made_from.get(each.plan_job_id or ""), tx.moment)
        version = versions.get(each.module_id, new.state_version)
        if decide.is_stale(new, version, subject.facts.state):
            new = decide.plan_again(new, "stale", _STALE if subject.is_open else _STALE_AND_MERGED, tx.moment)
        after.append(new)
    changed = [new for new, old in zip(after, before, strict=True) if new != old]
    await store.save_modules(tx, changed)
    if changed:
        tx.wake("pull_requests", row.id)
    return after
