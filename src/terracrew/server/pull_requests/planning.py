"""Plans what a pull request touches: looks at it with git, writes which modules it touches, and queues a PLAN job for each."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from terracrew.api.jobs import JobOrigin, NewJob, OriginKind
from terracrew.api.pull_requests import PlanState
from terracrew.errors import Forbidden, Invalid, NotFound, TerracrewError, TooLarge, Unavailable
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import GitSource, JobType, MergeResult
from terracrew.server.db.seam import Tx
from terracrew.server.forges import reads as forge_reads
from terracrew.server.forges.reads import GitModule
from terracrew.server.git import merging
from terracrew.server.git.source_graph import Root
from terracrew.server.jobs import create
from terracrew.server.jobs import decide as job_decide
from terracrew.server.jobs import store as jobs
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals.model import SYSTEM
from terracrew.server.pull_requests import decide, looking, pending, reads, store
from terracrew.server.pull_requests.looking import Looking, SourceLook
from terracrew.server.pull_requests.model import MergedSource, PullRequestSubject, TouchedModule, TrackedPullRequest
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.tree.modules import archives, policy
from terracrew.server.tree.modules import reads as module_reads

MAX_AT_ONCE = 50
"""How many jobs are created in one transaction."""
_MODE: CancelMode = "interrupt"
MAX_QUESTIONS = 3
"""How often the forge is asked whether a pull request is merged whose changes the target branch has."""
SUPERSEDED = "a newer commit of its pull request or of the target branch"


class LeaseLost(TerracrewError):
    """Another server works on the pull request by now."""


async def look(tools: PullRequestTools, looking_at: Looking, subject: PullRequestSubject) -> PullRequestSubject:
    """Find out what an open pull request touches, and write it. Plans of what has changed are not wanted any more."""
    modules, problem = await planned_modules(tools, subject), ""
    if is_refused_fork(subject):
        found = SourceLook(subject.facts.head_commit, subject.row.base_commit)
        problem = (
            f"it comes from a fork: when somebody has looked at it, a member comments `terracrew allow {found.head}`"
        )
    else:
        try:
            found = await looking_at.look(tools, subject, await roots_of(tools, modules))
        except (Forbidden, Invalid, NotFound, TooLarge) as error:
            found = SourceLook(subject.facts.head_commit, subject.row.base_commit, problem=error.message)
    is_maybe_merged = found.is_in_base and subject.row.head_commit == found.head
    if (
        is_maybe_merged
        and subject.row.failures < MAX_QUESTIONS
        and await tools.db.read(lambda tx: _gives_up(tx, subject, found))
    ):  # the push of a merge is often seen before the merge, and what was planned is wanted then
        raise Unavailable("the target branch has everything of it: the forge is asked whether it is merged")
    modules_of_merge = await pending.find(tools, looking_at, subject, found)

    async def work(tx: Tx) -> TrackedPullRequest:
        row = await held(tx, tools, subject)
        changes = decide.after_look(row.id, await store.modules_of(tx, row.id), found, tx.moment)
        for job_id in changes.superseded:
            await cancel(tx, job_id, SUPERSEDED)
        await store.remove_modules(tx, row.id, changes.removed)
        await store.put_modules(tx, changes.put)
        is_same = row.source is not None and row.source.commit == found.commit
        after = replace(
            row,
            seen_revision=subject.facts.revision,
            seen_base=subject.repository.default_commit,
            head_commit=found.head,
            base_commit=found.base,
            source=row.source if is_same else None,
            first_branch=row.first_branch or subject.facts.base_branch,
            problem=problem or found.problem,
            is_waiting=bool(problem),
            pending=modules_of_merge,
        )
        await store.save(tx, after)
        tx.wake("pull_requests", row.id)
        return after

    return subject.with_row(await tools.db.write(work))


async def _gives_up(tx: Tx, subject: PullRequestSubject, found: SourceLook) -> bool:
    """Return whether modules would not be touched any more after a look."""
    known = await store.modules_of(tx, subject.row.id)
    return bool(decide.after_look(subject.row.id, known, found, tx.moment).removed)


async def queue(tools: PullRequestTools, subject: PullRequestSubject) -> PullRequestSubject:
    """Queue the plans that are still to come. One that was merged is not planned any more: the branch can have other files by now."""
    if not subject.is_open:
        return subject
    rows = await tools.db.read(lambda tx: store.modules_of(tx, subject.row.id))
    wanted = [each for each in rows if decide.wants_plan(each)]
    if not wanted or subject.row.problem:
        return subject
    subject = await _packed(tools, subject)
    by_id = {each.id: each for each in await planned_modules(tools, subject)}
    made_for = await tools.db.read(lambda tx: reads.linked_user(tx, subject.connection.id, subject.facts.author_id))
    for at in range(0, len(wanted), MAX_AT_ONCE):
        chunk = wanted[at : at + MAX_AT_ONCE]
        await tools.db.write(lambda tx, chunk=chunk: _queue(tx, tools, subject, chunk, by_id, made_for))
    return subject


async def end(tools: PullRequestTools, subject: PullRequestSubject) -> None:
    """Cancel what has not begun of a pull request that was closed without being merged."""

    async def work(tx: Tx) -> None:
        row = await held(tx, tools, subject)
        for each in await store.modules_of(tx, row.id):
            for job_id in (each.plan_job_id, each.apply_job_id):
                if job_id is not None:
                    await cancel(tx, job_id, "the end of its pull request, which was closed")

    await tools.db.write(work)


async def held(tx: Tx, tools: PullRequestTools, subject: PullRequestSubject) -> TrackedPullRequest:
    """Hold the row of a pull request. Raises LeaseLost if another server works on it by now."""
    row = await store.hold(tx, subject.row.id)
    if row is None or row.lease_holder != tools.server_id:
        raise LeaseLost("another server works on this pull request")
    return row


async def cancel(tx: Tx, job_id: str, by: str) -> bool:
    """Cancel a job that is not wanted any more. An apply that has begun is left alone."""
    job = await jobs.hold_job_if_known(tx, job_id)
    if job is None or job.is_terminal or (job.is_active and job.type is not JobType.PLAN):
        return False
    await jobs.save_transition(tx, job, job_decide.cancel(job, _MODE, tx.moment, by))
    return True


def is_refused_fork(subject: PullRequestSubject) -> bool:
    facts, row = subject.facts, subject.row
    return facts.is_fork and (row.allowed_commit, row.allowed_branch) != (facts.head_commit, facts.base_branch)


def origin(subject: PullRequestSubject, kind: OriginKind = "pull_request") -> JobOrigin:
    facts = subject.facts
    return JobOrigin(
        kind=kind,
        name=subject.name,
        id=facts.id,
        url=facts.url,
        title=facts.title,
        author=facts.author,
        commit=facts.merge_commit if kind == "merge" and facts.merge_commit else facts.head_commit,
        base_commit=subject.row.base_commit,
    )


async def tracking(tx: Tx, subject: PullRequestSubject) -> list[GitModule]:
    """Return the modules that run what is in the target branch."""
    return [
        each
        for each in await forge_reads.modules_of(tx, subject.repository)
        if each.tracks(subject.repository, subject.facts.base_branch)
    ]


async def planned_modules(tools: PullRequestTools, subject: PullRequestSubject) -> list[GitModule]:
    """Return the modules that run what is in the target branch, and whose pull requests are planned."""

    async def work(tx: Tx) -> list[GitModule]:
        found = await tracking(tx, subject)
        rules = await policy.pull_request_rules(tx, [each.id for each in found])
        return [each for each in found if each.id in rules and rules[each.id].is_planned]

    return await tools.db.read_in_background(work)


async def roots_of(tools: PullRequestTools, modules: Sequence[GitModule]) -> dict[str, Root]:
    """Return what these modules say about their files, by their ids."""
    watch = await tools.db.read(lambda tx: module_reads.watch_patterns(tx, [each.id for each in modules]))
    return {each.id: looking.root_of(each, watch.get(each.id, ())) for each in modules}


async def _packed(tools: PullRequestTools, subject: PullRequestSubject) -> PullRequestSubject:
    """Store the merge result, unless that was done before."""
    row = subject.row
    if row.source is not None:
        return subject
    key = subject.repository.mirror_key
    commit = (await merging.merge(tools.mirrors, key, row.base_commit, row.head_commit)).commit
    pack = await merging.pack(tools.mirrors, key, row.base_commit, commit)
    archive = await archives.keep_pack(tools.staging, tools.quotas, row.organization_id, pack)
    merge = MergeResult(
        base=row.base_commit,
        head=row.head_commit,
        base_ref=f"refs/heads/{subject.facts.base_branch}",
        sha256=archive.sha256,
        size=archive.size,
        archive_id=archive.id,
    )

    async def work(tx: Tx) -> TrackedPullRequest:
        after = replace(await held(tx, tools, subject), source=MergedSource(commit, merge))
        await store.save(tx, after)
        return after

    return subject.with_row(await tools.db.write(work))


async def _queue(
    tx: Tx,
    tools: PullRequestTools,
    subject: PullRequestSubject,
    wanted: Iterable[TouchedModule],
    modules: dict[str, GitModule],
    made_for: str,
) -> None:
    row = await held(tx, tools, subject)
    assert row.source is not None
    known = {each.module_id: each for each in await store.modules_of(tx, row.id)}
    rows = [each for each in wanted if known.get(each.module_id) == each and each.module_id in modules]
    requests = [
        JobRequest(
            SYSTEM,
            each.module_id,
            NewJob(JobType.PLAN, source=_source(modules[each.module_id], row.source)),
            origin=origin(subject),
            created_for=made_for,
        )
        for each in rows
    ]
    made = await create.create_all(tx, requests, keys=tools.keys, roots=tools.roots, quotas=tools.quotas)
    versions = await module_reads.state_versions(tx, [each.module_id for each in rows])
    after: list[TouchedModule] = []
    for each, created in zip(rows, made, strict=True):
        if isinstance(created, TerracrewError) and created.details.get("field") == "source.merge":
            await store.save(
                tx, replace(row, source=None)
            )  # nobody needed the pack for long, so it was removed: merge again
        elif isinstance(created, TerracrewError):
            state: PlanState = "waiting" if "quota" in created.details else "failed"  # there is room again some day
            after.append(replace(each, state=state, reason=created.message, changed_at=tx.moment))
        else:
            job = created.job
            commits = {"head_commit": row.head_commit, "base_commit": row.base_commit, "changed_at": tx.moment}
            version = versions.get(each.module_id, 0)
            reason = "" if each.state == "waiting" else each.reason
            planned = replace(
                each, reason=reason, plan_job_id=job.id, plan_status=str(job.status), state_version=version, **commits
            )
            after.append(planned)
    await store.save_modules(tx, after)
    tx.wake("pull_requests", row.id)


def _source(module: GitModule, merged: MergedSource) -> GitSource:
    return replace(module.source, branch="", commit=merged.commit, merge=merged.merge)
