"""Shows the forge what has become of a pull request: the aggregate status first, then the comment, then the statuses of modules.

Only what differs from what was written last is written, so that many changes cost few writes. Each write is remembered at once.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus

import msgspec
from msgspec.structs import replace

from terracrew.api.pull_requests import PullRequestApply
from terracrew.forges.contract import Forge, ForgeRefused
from terracrew.forges.model import Status
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import store as jobs
from terracrew.server.policies import model as policy_model
from terracrew.server.policies import reads as policy_reads
from terracrew.server.policies import store as policy_store
from terracrew.server.policies.model import PolicyResult
from terracrew.server.pull_requests import decide, planning, reporting, store
from terracrew.server.pull_requests.buckets import Buckets
from terracrew.server.pull_requests.model import COMMENT, PullRequestSubject, TouchedModule, TrackedPullRequest
from terracrew.server.pull_requests.reporting import ForgeReport, ShownModule
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.tree.modules import reads as module_reads
from terracrew.server.tree.modules.policy import PullRequestRules
from terracrew.wording import policy_words

REFUSED_SECONDS = 280.0
"""After which time the forge is asked again to take what it has refused: with the next look."""
_REFUSED = "refused"


class ShowResult(msgspec.Struct, frozen=True):
    row: TrackedPullRequest
    wait_seconds: float = 0.0
    """After which time the rest can be written; 0 if nothing is left."""


class Showing:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[int, Buckets] = {}

    async def show(
        self,
        tools: PullRequestTools,
        subject: PullRequestSubject,
        rows: Sequence[TouchedModule],
        rules: Mapping[str, PullRequestRules],
    ) -> ShowResult:
        """Write what differs, as far as the limits allow. Raises ForgeAway."""
        forge = tools.forges.of(subject.connection)
        if not forge.limits.has_pull_requests:
            return ShowResult(subject.row)
        report = await tools.db.read_in_background(lambda tx: _report(tx, tools, subject, rows, rules))
        is_finished = not any(each.state in decide.OPEN or each.state == "applying" for each in rows)
        row = subject.row
        if row.shown_commit != report.head_commit:  # statuses belong to a commit, and the comment to the pull request
            row = replace(
                row, shown_commit=report.head_commit, shown={k: v for k, v in row.shown.items() if k == COMMENT}
            )
        for key, content in _wanted(report, row, forge):
            digest = reporting.digest(msgspec.json.encode(content).decode())
            if row.shown.get(key) == digest:
                continue
            now = await tools.db.read(_now)
            if _was_refused(row.shown.get(key, ""), digest, now):
                continue
            wait = decide.write_wait(row.writes, now, is_finished=is_finished) or self._wait(subject, forge)
            if wait:
                return ShowResult(row, wait)
            row, is_refused = await self._write(subject, forge, row, key, content)
            writes = [each for each in row.writes if each > now - 60] + [now]
            written = f"{_REFUSED} {now:.0f} {digest}" if is_refused else digest
            row = await _save(tools, subject, replace(row, shown=row.shown | {key: written}, writes=writes))
        if row.show_problem and not any(each.startswith(_REFUSED) for each in row.shown.values()):
            row = await _save(tools, subject, replace(row, show_problem=""))
        return ShowResult(row)

    def _wait(self, subject: PullRequestSubject, forge: Forge) -> float:
        """Take a write of the connection, and return 0; or return after how many seconds there is one."""
        per_minute = forge.limits.writes_per_minute
        buckets = self._buckets.setdefault(per_minute, Buckets(per_minute, per_minute))
        return buckets.take(subject.connection.id, self._clock())

    async def _write(
        self,
        subject: PullRequestSubject,
        forge: Forge,
        row: TrackedPullRequest,
        key: str,
        content: Status | str,
    ) -> tuple[TrackedPullRequest, bool]:
        """Write one status or the comment; returns whether the forge refuses it. That is noted for people, and tried again later."""
        name, facts = subject.repository.name, subject.facts
        try:
            if isinstance(content, Status):
                await forge.set_status(name, row.shown_commit, content)
            else:
                known = row.comment_id or await forge.find_comment(
                    name, facts.number, reporting.marker(subject.connection.group_id)
                )
                row = replace(row, comment_id=await _write_comment(forge, subject, content, known))
        except ForgeRefused as error:
            return replace(row, show_problem=f"{key}: {error.message}"), True
        return row, False


def _was_refused(written: str, digest: str, now: float) -> bool:
    """Return whether the forge has refused the same a short time ago."""
    word, _, rest = written.partition(" ")
    at, _, refused = rest.partition(" ")
    return word == _REFUSED and refused == digest and now - float(at) < REFUSED_SECONDS


async def _write_comment(forge: Forge, subject: PullRequestSubject, content: str, known: str) -> str:
    name, number = subject.repository.name, subject.facts.number
    try:
        return await forge.write_comment(name, number, content, known)
    except ForgeRefused as error:
        if not known or error.answer_status != HTTPStatus.NOT_FOUND:
            raise
        return await forge.write_comment(name, number, content, "")  # somebody has deleted it


def _wanted(report: ForgeReport, row: TrackedPullRequest, forge: Forge) -> list[tuple[str, Status | str]]:
    limits = forge.limits
    first = reporting.aggregate(report, limits.description_characters)
    found: list[tuple[str, Status | str]] = [(first.context, first)]
    if report.modules or report.pending or report.problem or report.replies or COMMENT in row.shown:
        found.append((COMMENT, reporting.comment(report, limits.comment_characters)))
    return found + [
        (each.context, each) for each in reporting.of_modules(report, row.shown, limits.description_characters)
    ]


async def _save(tools: PullRequestTools, subject: PullRequestSubject, after: TrackedPullRequest) -> TrackedPullRequest:
    async def work(tx: Tx) -> TrackedPullRequest:
        row = await planning.held(tx, tools, subject)
        new = replace(
            row,
            shown=after.shown,
            shown_commit=after.shown_commit,
            comment_id=after.comment_id,
            show_problem=after.show_problem,
            writes=after.writes,
        )
        await store.save(tx, new)
        return new

    return await tools.db.write(work)


async def _report(
    tx: Tx,
    tools: PullRequestTools,
    subject: PullRequestSubject,
    rows: Sequence[TouchedModule],
    rules: Mapping[str, PullRequestRules],
) -> ForgeReport:
    row, facts = subject.row, subject.facts
    paths = await module_reads.paths_in(tx, row.organization_id, [each.module_id for each in rows])
    ids = [each.apply_job_id or each.plan_job_id or "" for each in rows]
    numbers = {each.id: each.number for each in await jobs.get_many(tx, [each for each in ids if each])}
    said = await _policies(tx, rows)
    applies: dict[str, PullRequestApply] = {each: rule.apply for each, rule in rules.items()}
    modules = [
        _shown(tools, paths[each.module_id], each, applies, numbers.get(job_id), job_id, said.get(each.module_id, []))
        for each, job_id in zip(rows, ids, strict=True)
        if each.module_id in paths
    ]
    return ForgeReport(
        group_id=subject.connection.group_id,
        head_commit=row.head_commit or facts.head_commit,
        base_branch=facts.base_branch,
        url=tools.link(f"/dashboard/pull-requests/{row.id}"),
        modules=modules,
        apply=rule_of(rows, rules),
        problem=row.problem,
        is_waiting=row.is_waiting,
        is_merged=facts.state == "merged",
        is_to_ask=subject.is_open and row.asked_commit != facts.head_commit and decide.is_ready_to_merge(rows, applies),
        replies=row.replies,
        pending=row.pending,
    )


async def _policies(tx: Tx, rows: Sequence[TouchedModule]) -> dict[str, list[PolicyResult]]:
    """Return by module what policies say of the plans that nobody has applied yet."""
    plans = {each.module_id: each.plan_job_id for each in rows if each.state == "changes" and each.plan_job_id}
    results = await policy_store.remarkable(tx, list(plans.values()))
    return {
        module_id: policy_model.remarkable(await policy_reads.active(tx, module_id), results[job_id])
        for module_id, job_id in plans.items()
        if job_id in results
    }


def rule_of(rows: Sequence[TouchedModule], rules: Mapping[str, PullRequestRules]) -> PullRequestApply:
    return decide.strictest(rules[each.module_id].apply for each in rows if each.module_id in rules)


def _shown(
    tools: PullRequestTools,
    path: str,
    row: TouchedModule,
    applies: Mapping[str, PullRequestApply],
    number: int | None,
    job_id: str,
    said: Sequence[PolicyResult],
) -> ShownModule:
    words = [(each, each.words[:1].upper() + each.words[1:]) for each in said]
    return ShownModule(
        path=path,
        state=row.state,
        is_to_apply=row.state == "changes" and not decide.is_left_to_others(row, applies),
        counts=row.counts,
        size=row.size,
        resources=row.resources,
        reason=row.reason,
        stops=[text for each, text in words if each.is_denied and each.enforcement == "mandatory"],
        remarks=[
            f"{text} ({policy_words.consequence(each)})" if each.is_denied else text
            for each, text in words
            if not each.is_denied or each.enforcement != "mandatory"
        ],
        job_number=number,
        url=tools.link(f"/dashboard/jobs/{job_id}") if number is not None else "",
    )


async def _now(tx: Tx) -> float:
    return tx.now
