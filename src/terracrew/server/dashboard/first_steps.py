"""The first steps in a new organization: add a runner, add a module, run the first plan. Each is done as soon as it is true."""

from collections.abc import Mapping, Sequence

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.search import patterns
from terracrew.server.jobs import reads, service
from terracrew.server.jobs.model import Job, JobStatus
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads as runner_reads
from terracrew.server.runners import service as runners
from terracrew.server.runners.model import RunnerStatus
from terracrew.server.tree.modules import reads as module_reads

MAX_FIRST_JOBS = 3
"""The steps are shown until more jobs than this have succeeded, so that people see the last one turn to done."""


class FirstStep(msgspec.Struct, frozen=True):
    title: str
    mark: str
    """The mark, as for a step of a job: SUCCEEDED, RUNNING, WAITING, FAILED or PENDING."""
    note: str
    address: str = ""
    """Where it is done; empty if it is done, or if the reader may not do it."""
    action: str = ""


async def read(tx: Tx, who: Principal) -> list[FirstStep]:
    """Return the first steps; none in an organization where more jobs have succeeded, or where the reader may see nothing."""
    seen = await authorize.visible_by_verb(tx, who, *Verb)
    readable, organization_id = seen[Verb.JOB_READ], who.organization_id or ""
    succeeded = await reads.ids(tx, organization_id, readable, reads.JobFilter(JobStatus.SUCCEEDED), MAX_FIRST_JOBS + 1)
    if readable.is_nothing or len(succeeded) > MAX_FIRST_JOBS:
        return []
    scope = runner_reads.RunnerScope(organization_id, is_shared=runners.is_shared_seen(who))
    counts = await runner_reads.counts(tx, seen[Verb.RUNNER_READ], scope, patterns(""))
    within = module_reads.ModuleScope(organization_id)
    modules = await module_reads.page(tx, seen[Verb.TREE_READ], within, "", 2)
    newest = await reads.ids(tx, organization_id, readable, reads.JobFilter(), 1)
    job = await service.find(tx, who, (succeeded or newest)[0], Verb.JOB_READ) if newest else None
    return [
        runner_step(counts, may=not seen[Verb.RUNNER_WRITE].is_nothing),
        module_step([row["path"] for row in modules], may=not seen[Verb.TREE_WRITE].is_nothing),
        plan_step(job, [row["id"] for row in modules], may=not seen[Verb.JOB_RUN].is_nothing),
    ]


def runner_step(counts: Mapping[str, int], *, may: bool) -> FirstStep:
    title, online = "Add a runner", counts.get(RunnerStatus.ONLINE.value, 0)
    if online:
        return FirstStep(
            title, "SUCCEEDED", "A runner is online." if online == 1 else f"{online:,} runners are online."
        )
    if sum(counts.values()):
        note = "None of the runners is online: start one with the token that was shown when it was added."
        return FirstStep(title, "WAITING", note, "/dashboard/runners", "Show runners")
    note = "It runs the jobs, where your credentials are, and needs no open port."
    return _open(title, note, "/dashboard/runners/add", "Add runner", may=may)


def module_step(paths: Sequence[str], *, may: bool) -> FirstStep:
    title = "Add a module"
    if paths:
        return FirstStep(title, "SUCCEEDED", f"{paths[0]} is a module." if len(paths) == 1 else "There are modules.")
    note = "A module is a configuration of OpenTofu, Terraform or Pulumi with its own state."
    return _open(title, note, "/dashboard/modules/create", "Create module", may=may)


def plan_step(job: Job | None, module_ids: Sequence[str], *, may: bool) -> FirstStep:
    """Return the step that ends with the first job that succeeds. `job` is that one, or the newest one."""
    title = "Run the first plan"
    if job is None:
        note = "It shows what would change, and changes nothing."
        address = f"/dashboard/modules/{module_ids[0]}" if len(module_ids) == 1 else "/dashboard/modules"
        return _open(
            title,
            note,
            address if module_ids else "",
            "Open the module" if len(module_ids) == 1 else "Choose a module",
            may=may,
        )
    what, address = f"Job #{job.number:,}", f"/dashboard/jobs/{job.id}"
    if job.status is JobStatus.SUCCEEDED:
        return FirstStep(title, "SUCCEEDED", f"{what} has succeeded.")
    if job.status is JobStatus.FAILED:
        return FirstStep(title, "FAILED", f"{what} has failed: its page says why.", address, "Open job")
    if job.is_terminal:
        return FirstStep(title, "PENDING", f"{what} was ended before it had succeeded.", address, "Open job")
    if job.is_active:
        return FirstStep(title, "RUNNING", f"{what} is running.", address, "Open job")
    return FirstStep(title, "WAITING", f"{what} is waiting: its page says for what.", address, "Open job")


def _open(title: str, note: str, address: str, action: str, *, may: bool) -> FirstStep:
    """Return a step that has not begun. Somebody who may not do it is told so."""
    if not may:
        return FirstStep(title, "PENDING", f"{note} Your role does not include it.")
    return FirstStep(title, "PENDING", note, address, action if address else "")
