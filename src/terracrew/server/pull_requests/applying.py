"""Applies the plans of a pull request: when somebody asks for it, or when it was merged; and merges one whose plans were applied."""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from terracrew.api.jobs import ApplyPlan, NewJob
from terracrew.errors import NotFound, TerracrewError, TooLarge, Unavailable
from terracrew.forges.contract import ForgeRefused
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import acting
from terracrew.server.jobs import apply_plan, approvals, create, queue_reads
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.pull_requests import decide, planning, reads, store
from terracrew.server.pull_requests.looking import Looking, MergeLook
from terracrew.server.pull_requests.model import PullRequestSubject, TouchedModule
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules.policy import PullRequestRules


async def apply(tools: PullRequestTools, subject: PullRequestSubject, who: Principal, row: TouchedModule) -> str:
    """Apply the plan of a module as it was shown, as this person; return what was in the way, or ''."""
    try:
        return await tools.db.write(lambda tx: _apply(tx, tools, subject, who, row))
    except TerracrewError as error:
        return error.message


async def _apply(
    tx: Tx,
    tools: PullRequestTools,
    subject: PullRequestSubject,
    who: Principal,
    row: TouchedModule,
    created_for: str = "",
) -> str:
    await store.hold(tx, row.pull_request_id)  # whoever changes a module of it holds it first
    now = await store.hold_module(tx, row.pull_request_id, row.module_id)
    if now is None or (now.plan_job_id, now.digest) != (row.plan_job_id, row.digest) or now.plan_job_id is None:
        return "it is planned again: look at the new plan"
    if now.head_commit != subject.facts.head_commit:
        return "its plan was made for another commit than the newest one"
    if now.apply_job_id is not None:
        return "its plan is applied already"
    created = await apply_plan.apply_plan(
        tx,
        tools.registry,
        who,
        now.plan_job_id,
        ApplyPlan(),
        keys=tools.keys,
        roots=tools.roots,
        quotas=None if who is SYSTEM else tools.quotas,
        created_for=created_for,
        allows_merge=True,
    )
    await _count_as_asking(tx, subject, created.job.id)
    await store.save_modules(tx, [replace(now, apply_job_id=created.job.id, changed_at=tx.moment)])
    tx.wake("pull_requests", row.pull_request_id)
    return ""


async def after_merge(
    tools: PullRequestTools, looking_at: Looking, subject: PullRequestSubject, rows: Sequence[TouchedModule]
) -> PullRequestSubject:
    """Apply what a merge was to apply. A plan is used if it was made for the commit that was merged, and its files are what the
    branch has now; otherwise a new one is made, which a person must approve. A merge into a branch that a module does not run is
    no reason to apply anything of it."""
    known = await planning.planned_modules(tools, subject)
    roots = await planning.roots_of(tools, known)
    if not subject.row.is_merge_read:
        rules = await tools.db.read(lambda tx: policy.pull_request_rules(tx, [each.id for each in known]))
        chosen = {each.id for each in known if rules[each.id].apply == "on_merge"}
        found = await looking_at.look_at_merge(tools, subject, roots) if chosen else MergeLook()
        subject, rows = await tools.db.write(lambda tx: _read_merge(tx, tools, subject, found, chosen))
    wanted = decide.unsettled(rows)
    if not wanted:
        return subject
    try:
        digests = await looking_at.digests_at_base(tools, subject, roots)
    except (NotFound, TooLarge) as error:
        await tools.db.write(lambda tx, why=error.message: _fail(tx, tools, subject, wanted, f"not applied: {why}"))
        return subject
    for row in wanted:
        await _settle(tools, subject, row, digests.get(row.module_id, ""))
    return subject


async def _read_merge(
    tx: Tx, tools: PullRequestTools, subject: PullRequestSubject, look: MergeLook, chosen: Collection[str]
) -> tuple[PullRequestSubject, list[TouchedModule]]:
    """Write which modules a merge has changed and applies, once: later changes of settings are about later merges.

    It does not matter what was known of the pull request before: it may have been opened, pushed to and merged between two looks, or
    its conflict was solved on the forge. `chosen`: the modules that apply what is merged.
    """
    row = await planning.held(tx, tools, subject)
    head = subject.facts.head_commit
    known = {each.module_id: each for each in await store.modules_of(tx, row.id)}
    unplanned = {
        module_id: TouchedModule(
            pull_request_id=row.id,
            module_id=module_id,
            digest=known[module_id].digest if module_id in known else "",
            head_commit=head,
            base_commit=row.base_commit,
            state="waiting",
            reason="it was merged before it was planned",
            changed_at=tx.moment,
        )
        for module_id in look.touched
        if module_id not in known or (known[module_id].head_commit != head and known[module_id].apply_job_id is None)
    }
    marked = [replace(each, is_on_merge=True) for key, each in (known | unplanned).items() if key in chosen]
    await store.put_modules(tx, marked)
    after = replace(row, is_merge_read=True)
    if look.problem:
        after = after.with_reply(
            f"it is not known which modules its merge has changed besides those that are listed, because {look.problem}"
        )
    await store.save(tx, after)
    tx.wake("pull_requests", row.id)
    return subject.with_row(after), await store.modules_of(tx, row.id)


async def _settle(tools: PullRequestTools, subject: PullRequestSubject, row: TouchedModule, digest: str) -> None:
    """Apply the plan of a merged pull request, or a new one."""
    why = _why_anew(subject, row, digest)
    if not digest:
        await tools.db.write(lambda tx: _has_no_folder(tx, tools, subject, row))
        return
    if not why:
        try:
            await tools.db.write(lambda tx: _apply_shown(tx, tools, subject, row))
            return
        except (Unavailable, planning.LeaseLost):
            raise
        except TerracrewError as error:
            why = error.message
    await tools.db.write(lambda tx: _apply_anew(tx, tools, subject, row, why))


def _why_anew(subject: PullRequestSubject, row: TouchedModule, digest: str) -> str:
    if row.plan_job_id is None:
        return row.reason or "it was merged before it was planned"
    if row.state != "changes":
        return "its plan had not succeeded"
    if row.head_commit != subject.facts.head_commit:
        return "its plan was made for another commit than the one that was merged"
    return "" if digest == row.digest else "the branch has other files of it by now"


async def _apply_shown(tx: Tx, tools: PullRequestTools, subject: PullRequestSubject, row: TouchedModule) -> None:
    if await _is_as(tx, tools, subject, row):
        await _apply(tx, tools, subject, SYSTEM, row, await _merged_for(tx, subject))


async def _is_as(tx: Tx, tools: PullRequestTools, subject: PullRequestSubject, row: TouchedModule) -> bool:
    """Hold a module of a pull request, and return whether it is still as it was read. Otherwise it is looked at again."""
    await planning.held(tx, tools, subject)
    return await store.hold_module(tx, row.pull_request_id, row.module_id) == row


async def _merged_for(tx: Tx, subject: PullRequestSubject) -> str:
    person = subject.facts.merged_by_id or subject.facts.author_id
    return await reads.linked_user(tx, subject.connection.id, person)


async def _has_no_folder(tx: Tx, tools: PullRequestTools, subject: PullRequestSubject, row: TouchedModule) -> None:
    if await _is_as(tx, tools, subject, row):
        await store.save_modules(
            tx, [replace(row, digest="", state="no_changes", reason=decide.GONE, changed_at=tx.moment)]
        )
        tx.wake("pull_requests", row.pull_request_id)


async def _fail(
    tx: Tx, tools: PullRequestTools, subject: PullRequestSubject, rows: Sequence[TouchedModule], why: str
) -> None:
    await planning.held(tx, tools, subject)
    failed = [replace(each, state="apply_failed", reason=why, changed_at=tx.moment) for each in rows]
    await store.save_modules(tx, failed)
    tx.wake("pull_requests", subject.row.id)


async def _apply_anew(
    tx: Tx, tools: PullRequestTools, subject: PullRequestSubject, row: TouchedModule, why: str
) -> None:
    """Queue an apply of what the branch has now, with a plan that a person must look at; one for several merges."""
    if not await _is_as(tx, tools, subject, row):
        return
    known = await queue_reads.queued_merge(tx, row.module_id)
    if known is not None:
        await _count_as_asking(tx, subject, known)
        await store.save_modules(tx, [replace(row, apply_job_id=known, changed_at=tx.moment)])
        return
    request = JobRequest(
        SYSTEM,
        row.module_id,
        NewJob(JobType.APPLY, needs_approval=True),
        origin=planning.origin(subject, "merge"),
        created_for=await _merged_for(tx, subject),
    )
    [made] = await create.create_all(tx, [request], keys=tools.keys, roots=tools.roots)
    if isinstance(made, Unavailable):
        raise made
    if isinstance(made, TerracrewError):
        await _fail(tx, tools, subject, [row], f"not applied: {made.message}")
        return
    await _count_as_asking(tx, subject, made.job.id)
    after = replace(row, apply_job_id=made.job.id, reason=f"planned again, because {why}", changed_at=tx.moment)
    await store.save_modules(tx, [after])
    tx.wake("pull_requests", row.pull_request_id)


async def _count_as_asking(tx: Tx, subject: PullRequestSubject, job_id: str) -> None:
    """Let the author of a pull request and who merged it count as people who queued a job, so that they do not approve their own
    change where that is not allowed, whoever else or whatever program has merged it."""
    ids = {subject.facts.author_id, subject.facts.merged_by_id} - {""}
    people = {await reads.linked_user(tx, subject.connection.id, each) for each in ids} - {""}
    job = await jobs.hold_job(tx, job_id)
    if not people <= {*job.queued_by, *job.replanned_by}:
        await jobs.save_transition(tx, job, replace(job, replanned_by=sorted({*job.replanned_by, *people})))


async def count_approvals(
    tools: PullRequestTools,
    subject: PullRequestSubject,
    rows: Sequence[TouchedModule],
    rules: Mapping[str, PullRequestRules],
) -> bool:
    """Count approvals of the forge for the plans that wait for one. Returns whether any plan waits for approvals of the forge."""
    waiting = [
        each
        for each in rows
        if each.state == "needs_approval" and each.apply_job_id and rules[each.module_id].forge_approvals
    ]
    # An approval was given for the branch that the pull request was to be merged into. Its author can choose another one later.
    if not waiting or subject.facts.state == "closed" or subject.facts.base_branch != subject.row.first_branch:
        return False
    given = await tools.forges.of(subject.connection).approvals(subject.repository.name, subject.facts.number)
    for each in given:
        if each.commit != subject.facts.head_commit:
            continue
        who = await tools.db.read(lambda tx, each=each: person_of(tx, subject, each.user_id))
        if who is not None:
            for row in (each for each in waiting if each.head_commit == subject.facts.head_commit):
                await _approve(tools, who, row, f"approved on the forge by {each.user} at {each.commit[:12]}")
    return True


async def person_of(tx: Tx, subject: PullRequestSubject, forge_user_id: str) -> Principal | None:
    """Return as whom a user of the forge acts; None if they are nobody here, or may not act any more."""
    user_id = await reads.linked_user(tx, subject.connection.id, forge_user_id)
    return await acting.principal(tx, user_id, subject.connection.organization_id) if user_id else None


async def _approve(tools: PullRequestTools, who: Principal, row: TouchedModule, comment: str) -> None:
    [job] = await tools.db.read(lambda tx: jobs.get_many(tx, [row.apply_job_id or ""])) or [None]
    if job is None or job.plan_attempt is None or job.plan_job_id is None or job.plan_job_id != row.plan_job_id:
        return  # it applies another plan than the one that the pull request has shown
    try:
        await approvals.approve(tools.db, tools.registry, who, job.id, job.plan_attempt, comment=comment)
    except TerracrewError:
        return  # they may not, or have done it before: the page of the job says who is missing


async def merge(tools: PullRequestTools, subject: PullRequestSubject) -> PullRequestSubject:
    """Merge a pull request for which `is_to_merge` says yes, or say why it is not merged."""
    facts, merged_at = subject.facts, subject.row.merge_commit
    words = "everything is applied: merge it, because this connection does not merge pull requests"
    if subject.connection.merges:
        try:
            forge = tools.forges.of(subject.connection)
            await forge.merge(subject.repository.name, facts.number, facts.head_commit)
            words, merged_at = "everything is applied: it is merged", facts.head_commit
        except ForgeRefused as error:
            words = f"everything is applied, and the forge does not let it be merged: {error.message}"

    async def work(tx: Tx) -> PullRequestSubject:
        held = await planning.held(tx, tools, subject)
        after = replace(held if words in held.replies[:1] else held.with_reply(words), merge_commit=merged_at)
        await store.save(tx, after)
        return subject.with_row(after)

    return await tools.db.write(work)


def is_to_merge(
    subject: PullRequestSubject, rows: Sequence[TouchedModule], rules: Mapping[str, PullRequestRules]
) -> bool:
    """Return whether the plans were applied, the modules want it merged then, and somebody has asked to apply its newest commit."""
    row, facts = subject.row, subject.facts
    is_ready = decide.is_ready_to_merge(rows, {each: rule.apply for each, rule in rules.items()})
    is_asked = row.asked_commit == facts.head_commit != row.merge_commit
    return subject.is_open and not facts.is_draft and is_asked and is_ready
