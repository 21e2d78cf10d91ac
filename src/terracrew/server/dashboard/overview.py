"""The overview, which people see first: what needs them, the first steps, and the active jobs; and the page that releases a hold."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromQuery

from terracrew.api.drift import ModuleDrift
from terracrew.api.job_views import HoldView, Reason
from terracrew.api.jobs import Job, JobStatus
from terracrew.api.overview import Overview, OverviewSpan
from terracrew.api.runners import RunnerStatus
from terracrew.protocol.events import PlanSummary
from terracrew.server.dashboard import forms, overview_activity, overview_charts, render, words
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.jobs import rows as job_rows
from terracrew.server.dashboard.jobs.rows import JobRow
from terracrew.server.dashboard.overview_activity import ActivityRow, ComingRow
from terracrew.server.dashboard.overview_charts import DrawnFigures
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import patterns
from terracrew.server.jobs import reads, service
from terracrew.server.jobs.set_back import release as holds_service
from terracrew.server.overview import activity, coming
from terracrew.server.overview import service as overview_service
from terracrew.server.overview.selection import Selected, WaitingJobs, select
from terracrew.server.overview.service import TreeNeeds
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads as runner_reads
from terracrew.server.runners import service as runners
from terracrew.server.runs import attention, module_view
from terracrew.server.runs import reads as run_reads
from terracrew.server.runs.attention import MAX_LISTED, TroubledModule
from terracrew.server.runs.reasons import Watch
from terracrew.server.tree.groups.tree_path import is_within_any
from terracrew.server.tree.modules import reads as module_reads
from terracrew.wording import plan_words

HERE = "/dashboard"
HOLD = "/dashboard/hold"
MAX_ACTIVE_JOBS = 10
MAX_OPEN_READ_OF_PLACES = 500
"""How many active jobs are looked at where only some groups are shown, because those of other groups are left out afterwards."""
MAX_FIRST_JOBS = 3
"""The steps are shown until more jobs than this have succeeded, so that people see the last one turn to done."""
_IN_DOUBT = Badge("warn", "mark", "In doubt")
_QUARANTINE = Badge("bad", "slash", "State in quarantine")
_STALE = Badge("warn", "clock", "Out of date")
_DRIFT = Badge("warn", "mark", "Drift")
_OFFLINE = Badge("bad", "cross", "Offline")
_OUTDATED = Badge("idle", "half", "Outdated")


class AskedOverview(msgspec.Struct, frozen=True):
    """What the reader has chosen to see."""

    span: OverviewSpan = "day"
    is_mine: bool = True
    """Only the groups at which the reader has roles, if there are any."""
    place: str = ""

    def address(self, **changes: Any) -> str:
        """Return the address of the overview with some other choices."""
        wanted = msgspec.structs.replace(self, **changes)
        groups = "" if wanted.is_mine else "all"
        span = "" if wanted.span == "day" else wanted.span
        return render.query(HERE, span=span, groups=groups, place=wanted.place)


class AttentionRow(msgspec.Struct, frozen=True):
    """One thing that needs a person."""

    id: str
    badge: Badge
    path: str
    """The module that it is about."""
    address: str
    """Where to do something about it."""
    action: str
    job: JobRow | None = None
    sub: str = ""
    """What stands beside the name, where it is about no job."""
    text: str = ""
    """What happened, where no reason says it."""
    reason: Reason | None = None
    danger: str = ""
    """What the plan destroys, in words."""
    since: datetime | None = None
    others: int = 0
    """How many other jobs wait for the same reason."""


class FirstStep(msgspec.Struct, frozen=True):
    title: str
    mark: str
    """The mark, as for a step of a job: SUCCEEDED, RUNNING, WAITING, FAILED or PENDING."""
    note: str
    address: str = ""
    """Where it is done; empty if it is done, or if the reader may not do it."""
    action: str = ""


class OverviewPage(msgspec.Struct, frozen=True):
    rows: list[AttentionRow]
    more: list[tuple[str, str]]
    """What is not listed, because there is more of it: in words, and where it is listed."""
    steps: list[FirstStep]
    """The first steps of a new organization; none once they are done and some jobs have succeeded."""
    active: list[JobRow]
    """The newest jobs that have not ended and are not listed above."""
    has_role: bool
    """Whether the reader may see anything in this organization."""
    figures: Overview
    has_figures: bool
    """Whether a group is counted. Somebody who sees single modules only has none."""
    drawn: DrawnFigures
    activity: list[ActivityRow]
    coming: list[ComingRow]
    asked: AskedOverview
    has_own_groups: bool
    """Whether the reader has roles at groups, so that these can be chosen."""


async def read(tx: Tx, who: Principal, watch: Watch, asked: AskedOverview) -> OverviewPage:
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    has_own_groups = bool(overview_service.my_groups(seen, asked.place))
    asked = msgspec.structs.replace(asked, is_mine=has_own_groups and asked.is_mine)
    within = await overview_service.scope(tx, who, asked.place, is_mine=asked.is_mine)
    found = await attention.read(tx, who, within.places)
    tree = await overview_service.tree_needs(tx, who, within.places)
    figures = await overview_service.with_figures(tx, who, asked.span, within)
    organization_id = who.organization_id or ""
    most = MAX_ACTIVE_JOBS + MAX_LISTED if "" in within.places else MAX_OPEN_READ_OF_PLACES
    newest = await reads.ids(tx, organization_id, seen, reads.JobFilter(is_open=True), most)
    if "" not in within.places:
        paths = await run_reads.module_paths(tx, newest)
        newest = [each for each in newest if is_within_any(paths.get(each, ""), within.places)]
        newest = newest[: MAX_ACTIVE_JOBS + MAX_LISTED]
    named = {*found.to_approve, *found.stale, *found.failed, *found.out_of_contact, *found.queued, *newest}
    jobs = {row.id: row for row in await job_rows.read_these(tx, sorted(named), watch)}
    plans = await attention.plans(tx, found.to_approve[:MAX_LISTED])
    rows, more = attention_rows(select(found, jobs), plans, tree, is_administrator=who.is_system_admin)
    listed = {row.id for row in rows}
    active = [jobs[each] for each in newest if each in jobs and each not in listed][:MAX_ACTIVE_JOBS]
    return OverviewPage(
        rows=rows,
        more=more,
        steps=await read_first_steps(tx, who),
        active=active,
        has_role=not seen.is_nothing,
        figures=figures,
        has_figures=not figures.is_partial or figures.total.finished > 0 or figures.total.capacity_seconds > 0,
        drawn=overview_charts.draw(figures),
        activity=overview_activity.happened(await activity.read(tx, who, within.places)),
        coming=overview_activity.coming(await coming.read(tx, who, within.places)),
        asked=asked,
        has_own_groups=has_own_groups,
    )


def attention_rows(
    found: Selected[JobRow], plans: dict[str, PlanSummary], tree: TreeNeeds, *, is_administrator: bool
) -> tuple[list[AttentionRow], list[tuple[str, str]]]:
    """Return what needs a person, the most urgent first, and what of it is not listed. A pure function."""
    to_approve = [_to_approve(each, plans.get(each.id)) for each in found.to_approve]
    failed = [_of_job(each, "Open job", each.finished_at, text=each.message) for each in found.failed]
    stale = [_of_job(each, "Plan again", each.queued_at, badge=_STALE) for each in found.stale]
    lost = [_of_job(each, "Open job", each.started_at, "#lost") for each in found.lost]
    waiting = [_waiting(each, is_administrator=is_administrator) for each in found.waiting]
    kinds: list[tuple[list[AttentionRow], str, str]] = [
        (to_approve, "More plans wait for your approval", "/dashboard/jobs?status=AWAITING_APPROVAL"),
        (failed, "More failed", "/dashboard/jobs?status=FAILED"),
        (lost, "More are lost", "/dashboard/jobs?status=open"),
        ([_doubtful(each) for each in found.in_doubt], "More modules are in doubt", "/dashboard/modules"),
        ([_quarantined(each) for each in found.quarantined], "More states are in quarantine", "/dashboard/modules"),
        (stale, "More plans are out of date", "/dashboard/jobs?status=AWAITING_APPROVAL"),
        (waiting, "More jobs wait", "/dashboard/jobs?status=open"),
        ([_drifted(each) for each in tree.drifted], "More modules have drift", "/dashboard/drift"),
        (_runners(tree), "More runners are offline", "/dashboard/runners?status=OFFLINE"),
    ]
    rows = [row for each, _, _ in kinds for row in each[:MAX_LISTED]]
    return rows, [(words, address) for each, words, address in kinds if len(each) > MAX_LISTED]


def _to_approve(job: JobRow, plan: PlanSummary | None) -> AttentionRow:
    destroyed = plan_words.destroy_count(plan)
    danger = f"Destroys {destroyed:,}." if destroyed else ""
    return _of_job(job, "Review plan", job.queued_at, text=plan_words.counts(plan), danger=danger)


def _of_job(job: JobRow, action: str, since: datetime | None, anchor: str = "", **others: Any) -> AttentionRow:
    """Return a row about a job. Without a reason, it has lasted since `since`."""
    address = f"/dashboard/jobs/{job.id}{anchor}"
    values: dict[str, Any] = {"badge": job.badge, "reason": job.reason} | others
    since = job.reason.since if job.reason else since
    return AttentionRow(id=job.id, path=job.module_path, address=address, action=action, job=job, since=since, **values)


def _doubtful(module: TroubledModule) -> AttentionRow:
    text = (
        f"job #{module.count:,} was cut short in a change, and no state may record what it created: "
        "plan the module, and compare the plan with what exists"
    )
    address = f"/dashboard/modules/{module.id}#doubt"
    return AttentionRow(module.id, _IN_DOUBT, module.path, address, "Open module", text=text, since=module.since)


def _quarantined(module: TroubledModule) -> AttentionRow:
    text = (
        "a state has arrived after the attempt that wrote it was given up: jobs of this module wait until it is adopted or discarded"
        if module.count == 1
        else f"{module.count:,} states have arrived after the attempts that wrote them were given up: jobs of this module wait until "
        "each is adopted or discarded"
    )
    address = f"/dashboard/modules/{module.id}#quarantine"
    return AttentionRow(
        f"{module.id}-states", _QUARANTINE, module.path, address, "Decide", text=text, since=module.since
    )


def _drifted(module: ModuleDrift) -> AttentionRow:
    need = overview_service.drift_need(module)
    address = f"/dashboard/drift/{module.module_id}"
    return AttentionRow(
        f"{module.module_id}-drift", _DRIFT, module.path, address, "Show drift", text=need.text, since=need.since
    )


def _runners(tree: TreeNeeds) -> list[AttentionRow]:
    """Return the runners that are offline, and one row for all that are outdated, which comes first so that it is never cut off."""
    away = [
        AttentionRow(
            each.id,
            _OFFLINE,
            each.path,
            f"/dashboard/runners/{each.id}",
            "Open runner",
            sub="runner",
            text=overview_service.away_need(each).text,
            since=each.since,
        )
        for each in tree.away
    ]
    if tree.outdated is None:
        return away
    need = overview_service.outdated_need(tree.outdated)
    others = len(tree.outdated.named) - 1
    address, action = (
        ("/dashboard/releases", "Show releases") if others else (f"/dashboard/runners/{need.runner_id}", "Open runner")
    )
    row = AttentionRow("outdated", _OUTDATED, need.path, address, action, sub="runner", text=need.text)
    return [row, *away]


def _waiting(found: WaitingJobs[JobRow], *, is_administrator: bool) -> AttentionRow:
    """Return the row of jobs that wait for a person. Only an administrator has a page to release what the server holds."""
    job, reason = found.job, found.job.reason
    address, action = f"/dashboard/jobs/{job.id}", "Open job"
    if reason is not None and reason.link and (is_administrator or reason.code != "held"):
        address, action = reason.link, words.link(reason)
    since = reason.since if reason is not None and reason.since else job.queued_at
    return AttentionRow(
        job.id, job.badge, job.module_path, address, action, job, reason=reason, since=since, others=found.others
    )


async def read_first_steps(tx: Tx, who: Principal) -> list[FirstStep]:
    """Return the first steps; none in an organization where more jobs have succeeded, or where the reader may see nothing."""
    seen = await authorize.visible_by_verb(tx, who, *Verb)
    readable, organization_id = seen[Verb.JOB_READ], who.organization_id or ""
    succeeded = await reads.ids(
        tx, organization_id, readable, reads.JobFilter(status=JobStatus.SUCCEEDED), MAX_FIRST_JOBS + 1
    )
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


@get("/")
async def overview(
    request: DashboardCall, span: FromQuery[str] = "day", groups: FromQuery[str] = "", place: FromQuery[str] = ""
) -> Response[Any]:
    chosen: OverviewSpan = "week" if span == "week" else "month" if span == "month" else "day"
    found = await request.read(read, request.watch, AskedOverview(chosen, groups != "all", place))
    return await render.page(request, "overview/overview", page=found)


class HoldReleaseForm(msgspec.Struct, frozen=True):
    module: str = ""
    """The id of a module; empty for everything."""
    is_untouched: str = ""


async def _read_hold(tx: Tx, who: Principal) -> HoldView:
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    return await module_view.open_hold(tx)


@get("/hold")
async def hold_page(request: DashboardCall) -> Response[Any]:
    found = await request.read(_read_hold)
    return await render.page(request, "jobs/hold/hold", at="hold", page=found)


@post("/hold/release", status_code=200)
async def release_hold(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, HoldReleaseForm)
    db, is_untouched = request.context.db, bool(form.is_untouched)
    if form.module:
        await holds_service.release_module(db, request.user, form.module, is_untouched=is_untouched)
        return render.done(request, "Released: its next plan waits for an approval.", HOLD)
    await holds_service.release(db, request.user, is_untouched=is_untouched)
    return render.done(request, "The server hands out changes again.", HOLD)
