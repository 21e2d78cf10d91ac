"""Carries out what people ask for, in comments on the forge or here: plan again, apply, cancel, allow a fork's commit."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta

from msgspec.structs import replace

from terracrew.api.pull_requests import PullRequestOutcome
from terracrew.errors import Forbidden, Invalid, TerracrewError
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.forges import fact_store
from terracrew.server.forges.model import ForgeComment
from terracrew.server.jobs import store as jobs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.pull_requests import applying, commands, decide, planning, store
from terracrew.server.pull_requests.commands import Command
from terracrew.server.pull_requests.looking import Looking
from terracrew.server.pull_requests.model import PullRequestSubject, TouchedModule, TrackedPullRequest
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules import reads as module_reads

MAX_NAMED = 10
"""How many modules a reply names."""
CLOCK_MARGIN = timedelta(seconds=5)
"""How far the forge's clock may be behind without anybody being asked to repeat a command."""


async def carry_out_comments(
    tools: PullRequestTools, subject: PullRequestSubject, looking_at: Looking
) -> PullRequestSubject:
    """Carry out the commands in comments that wait. Each is marked afterwards: one that is repeated because a server was killed
    finds that its work is done."""
    waiting = await tools.db.read(
        lambda tx: fact_store.waiting_comments(tx, subject.repository.id, subject.facts.number)
    )
    for comment in waiting:
        subject = await _reply(tools, subject, comment, await _answer(tools, subject, looking_at, comment))
    return subject


async def _answer(
    tools: PullRequestTools, subject: PullRequestSubject, looking_at: Looking, comment: ForgeComment
) -> str:
    who = await tools.db.read(lambda tx: applying.person_of(tx, subject, comment.author_id))
    try:
        command = commands.parse(comment.body)
        if command is None:
            return ""
        if command.name == "help":
            return commands.HELP
        if who is None:
            raise Forbidden(
                f"{comment.author} is not linked to a user of Terracrew who may act here: an administrator links them"
            )
        return (await carry_out(tools, subject, looking_at, who, command, comment)).message
    except TerracrewError as error:
        return error.message


async def carry_out(
    tools: PullRequestTools,
    subject: PullRequestSubject,
    looking_at: Looking,
    who: Principal,
    command: Command,
    comment: ForgeComment | None = None,
    plans: Collection[str] = (),
) -> PullRequestOutcome:
    """Do what a command says, as this person, and return what became of it.

    `comment`: where it was written. A plan that was made after it was not meant by it. `plans`: the jobs whose plans are meant, of a
    command that was not written in a comment.
    """
    if command.name in ("plan", "allow") and not subject.is_open:
        raise Invalid(f"nothing is planned, because the pull request is {subject.facts.state}")
    if command.name == "allow":
        await tools.db.write(lambda tx: allow(tx, who, subject, command.arguments[0]))
        return PullRequestOutcome(f"{subject.facts.head_commit[:12]} may be planned")
    rows = await _chosen(tools, subject, who, command.arguments)
    if command.name == "plan":
        return _summary("planned again", await _each(tools, who, subject, rows, _plan))
    if command.name == "cancel":
        return _summary("canceled", await _each(tools, who, subject, rows, _cancel))
    return await _apply(tools, subject, looking_at, who, rows, comment, plans, is_named=bool(command.arguments))


async def allow(tx: Tx, who: Principal, subject: PullRequestSubject, commit: str) -> None:
    """Let a commit of a fork be planned, with the credentials of the modules that it touches."""
    facts, connection = subject.facts, subject.connection
    # To run other code with a runner's credentials has the effect of changing its modules.
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(connection.organization_id, connection.group))
    if not facts.is_fork:
        raise Invalid("this pull request is not from a fork: it is planned anyway")
    # The whole id: whoever makes commits can make two that begin alike, and show the one and push the other.
    if facts.head_commit != commit:
        raise Invalid(f"the newest commit is {facts.head_commit}, and not {commit[:64]}: look at that one")
    row = await store.hold(tx, subject.row.id)
    if row is None:
        raise Invalid("the pull request was not looked at yet: try again")
    await store.save(tx, replace(row, allowed_commit=commit, allowed_branch=facts.base_branch, allowed_by=who.id))
    await store.make_due(tx, row.id)
    details = {"pull_request": subject.name, "commit": commit, "branch": facts.base_branch}
    await audit.record(
        tx, who, "pull_request.allow", "pull_request", row.id, details, organization_id=connection.organization_id
    )
    tx.wake("pull_requests", row.id)


async def _chosen(
    tools: PullRequestTools, subject: PullRequestSubject, who: Principal, paths: Sequence[str]
) -> list[tuple[str, TouchedModule]]:
    """Return the modules that a command is about, each with its path. Without paths, all of the pull request are meant."""

    async def work(tx: Tx) -> list[tuple[str, TouchedModule]]:
        rows = await store.modules_of(tx, subject.row.id)
        known = await module_reads.paths_in(tx, subject.row.organization_id, [each.module_id for each in rows])
        seen = await authorize.visible(tx, who, Verb.TREE_READ)
        organization_id = subject.row.organization_id
        return [
            (known[each.module_id], each)
            for each in rows
            if each.module_id in known and seen.covers(authorize.module(organization_id, known[each.module_id]))
        ]

    found = sorted(await tools.db.read(work), key=lambda each: each[0])
    if not paths:
        return found
    names = {path for path, _ in found}
    if missing := [each for each in paths if each not in names]:
        raise Invalid(f"this pull request touches no module `{missing[0][:200]}` that you may see")
    return [each for each in found if each[0] in paths]


async def _each(
    tools: PullRequestTools,
    who: Principal,
    subject: PullRequestSubject,
    rows: Sequence[tuple[str, TouchedModule]],
    work: Callable[[Tx, Principal, PullRequestSubject, str, TouchedModule], Awaitable[str]],
) -> list[tuple[str, str]]:
    """Do something with each of these modules. Returns their paths, each with what was in the way."""
    found: list[tuple[str, str]] = []
    for path, row in rows:
        try:
            problem = await tools.db.write(lambda tx, path=path, row=row: work(tx, who, subject, path, row))
        except TerracrewError as error:
            problem = error.message
        found.append((path, problem))
    return found


async def _plan(tx: Tx, who: Principal, subject: PullRequestSubject, path: str, row: TouchedModule) -> str:
    await authorize.require(tx, who, Verb.JOB_RUN, authorize.module(subject.row.organization_id, path))
    await store.hold(tx, row.pull_request_id)
    held = await store.hold_module(tx, row.pull_request_id, row.module_id)
    if held is None or not held.digest or held.state in ("applying", "needs_approval"):
        return "it is being applied" if held is not None and held.digest else "there is nothing to plan"
    if held.plan_job_id is not None:
        await planning.cancel(tx, held.plan_job_id, who.name)
    await store.save_modules(tx, [decide.plan_again(held, "waiting", "", tx.moment)])
    details = {"pull_request": subject.name, "module": path}
    organization_id = subject.row.organization_id
    await audit.record(
        tx, who, "pull_request.plan", "pull_request", subject.row.id, details, organization_id=organization_id
    )
    await store.make_due(tx, row.pull_request_id)
    return ""


async def _cancel(tx: Tx, who: Principal, subject: PullRequestSubject, path: str, row: TouchedModule) -> str:
    """Cancel the plan or the apply of a module, unless the apply has begun: that is canceled on the page of its job."""
    await authorize.require(tx, who, Verb.JOB_CANCEL, authorize.module(subject.row.organization_id, path))
    job_id = row.apply_job_id or row.plan_job_id
    if job_id is None:
        return "nothing of it has begun"
    if await planning.cancel(tx, job_id, who.name):
        [job] = await jobs.get_many(tx, [job_id])
        details = {"job": job.number, "mode": "interrupt"}
        await audit.record(tx, who, "job.cancel", "job", job_id, details, organization_id=job.organization_id)
        tx.wake("pull_requests", row.pull_request_id)
        return ""
    is_running = row.state == "applying"
    return "its apply has begun: cancel it on the page of its job" if is_running else "nothing of it runs"


async def _apply(
    tools: PullRequestTools,
    subject: PullRequestSubject,
    looking_at: Looking,
    who: Principal,
    rows: Sequence[tuple[str, TouchedModule]],
    comment: ForgeComment | None,
    plans: Collection[str],
    *,
    is_named: bool,
) -> PullRequestOutcome:
    if subject.facts.state == "closed":
        raise Invalid("the pull request was closed without being merged: nothing of it is applied")
    if subject.row.problem:
        raise Invalid(f"nothing is applied: {subject.row.problem}")
    rules = await tools.db.read(lambda tx: policy.pull_request_rules(tx, [each.module_id for _, each in rows]))
    tracked = {each.id for each in await planning.planned_modules(tools, subject)}
    at_base = await _files_at_base(tools, subject, looking_at)
    found: list[tuple[str, str]] = []
    for path, row in rows:
        if row.state in ("no_changes", "applied") and not is_named:
            continue
        rule = rules.get(row.module_id, policy.PullRequestRules()).apply
        if rule not in ("on_command", "on_command_then_merge"):
            found.append((path, f"its setting for pull requests is `{rule}`"))
        elif row.state != "changes":
            found.append((path, _NOT_APPLIED.get(row.state, "it is planned again: look at the new plan")))
        elif row.module_id not in tracked:
            found.append((path, f"it does not run {subject.facts.base_branch} any more"))
        elif at_base.get(row.module_id, row.digest) != row.digest:
            found.append(
                (path, f"{subject.facts.base_branch} has other files of it by now: start an apply of the module")
            )
        elif comment is not None and await _is_newer(tools, row, comment):
            found.append((path, "its plan was made after the comment: look at it, and ask again"))
        elif comment is None and row.plan_job_id not in plans:
            found.append((path, "it was planned again: look at the new plan"))
        else:
            found.append((path, await applying.apply(tools, subject, who, row)))
    if any(not problem for _, problem in found) or (rows and not found):
        await tools.db.write(lambda tx: _ask_for(tx, subject))
    return _summary("applied", found) if found else PullRequestOutcome("no module has changes to apply")


async def _files_at_base(tools: PullRequestTools, subject: PullRequestSubject, looking_at: Looking) -> dict[str, str]:
    """Return what the files of the modules are now in the branch that a pull request was merged into; nothing for an open one."""
    if subject.facts.state != "merged":
        return {}
    known = await planning.planned_modules(tools, subject)
    return await looking_at.digests_at_base(tools, subject, await planning.roots_of(tools, known))


async def _ask_for(tx: Tx, subject: PullRequestSubject) -> None:
    """Write that somebody wants the newest commit of a pull request to be applied: it may be merged when that has happened."""
    row = await store.hold(tx, subject.row.id)
    if row is not None and row.asked_commit != subject.facts.head_commit:
        await store.save(tx, replace(row, asked_commit=subject.facts.head_commit))
        await store.make_due(tx, row.id)


_NOT_APPLIED = {
    "no_changes": "its plan changes nothing",
    "failed": "its plan failed",
    "canceled": "its plan was canceled",
    "applying": "it is applied already",
    "needs_approval": "it waits for approval",
    "applied": "it was applied already",
    "apply_failed": "its apply failed: plan it again",
}


async def _is_newer(tools: PullRequestTools, row: TouchedModule, comment: ForgeComment) -> bool:
    """Return whether a plan had not ended when a comment was written.

    The time when the comment arrived is of this server's clock. It can be much later than the comment, so the forge's time counts
    where it is earlier. If the forge's clock is slow, somebody is told to ask again, and nothing is applied.
    """
    written_at = min(comment.seen_at, comment.created_at + CLOCK_MARGIN)
    found = await tools.db.read(lambda tx: jobs.get_many(tx, [row.plan_job_id or ""]))
    return not found or found[0].finished_at is None or found[0].finished_at > written_at


async def _reply(
    tools: PullRequestTools, subject: PullRequestSubject, comment: ForgeComment, words: str
) -> PullRequestSubject:
    async def work(tx: Tx) -> TrackedPullRequest:
        row = await planning.held(tx, tools, subject)
        if await fact_store.handled(tx, comment.id) and words:
            row = row.with_reply(f"{_inert(comment.author)}: `{_inert(_first_line(comment.body))}`: {words}")
            await store.save(tx, row)
            tx.wake("pull_requests", row.id)
        return row

    return subject.with_row(await tools.db.write(work))


def _first_line(body: str) -> str:
    return body.lstrip().partition("\n")[0].strip()[:100]


def _inert(text: str) -> str:
    """Return a text of anybody without what would be markup or mention people."""
    return "".join(each for each in text if each.isalnum() or each in " ._/-")


def _summary(done: str, found: Sequence[tuple[str, str]]) -> PullRequestOutcome:
    good = [path for path, problem in found if not problem]
    bad = [(path, problem) for path, problem in found if problem]
    words = [f"{done}: {_names(good)}"] if good else []
    words += [f"`{path}`: {problem}" for path, problem in bad[:MAX_NAMED]]
    words += [f"and {len(bad) - MAX_NAMED} more could not be {done}"] if len(bad) > MAX_NAMED else []
    return PullRequestOutcome("; ".join(words) or "the pull request touches no module", good, dict(bad))


def _names(paths: Sequence[str]) -> str:
    shown = ", ".join(f"`{each}`" for each in paths[:MAX_NAMED])
    return shown + (f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else "")
