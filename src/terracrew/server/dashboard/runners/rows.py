"""The runners page: the runners that match its filters, with their instances and what they run now."""

from typing import Any

import msgspec
from litestar import Response, get
from litestar.params import FromQuery

from terracrew.api.runners import Instance, RunnerStatus, RunnerView
from terracrew.server.dashboard import badges, forms, render
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.groups import page as group_page
from terracrew.server.dashboard.groups.page import GroupHead
from terracrew.server.dashboard.jobs import rows as job_rows
from terracrew.server.dashboard.releases import rollout
from terracrew.server.dashboard.releases.rollout import OutdatedRunners
from terracrew.server.dashboard.runners import cloud, edit
from terracrew.server.dashboard.runners.cloud import CloudState
from terracrew.server.dashboard.runners.edit import RegisterForm
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import patterns
from terracrew.server.jobs import runner_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service, view_reads
from terracrew.server.runs.reasons import Watch

PAGE_ROWS = 50
MAX_CURRENT_JOBS = 3
"""How many current jobs of each runner are named; the others are counted."""


class CurrentJob(msgspec.Struct, frozen=True):
    """A job that a runner has now, as its row names it."""

    id: str
    number: int
    module_path: str


class RunnerRow(msgspec.Struct, frozen=True):
    runner: RunnerView
    may_change: bool
    current: list[CurrentJob] = []
    """The newest jobs that it has now and that the reader may see."""
    cloud: CloudState | None = None
    """What is known of a cloud-hosted one beside its record."""

    @property
    def connected(self) -> list[Instance]:
        return [each for each in self.runner.instances if each.status is not RunnerStatus.OFFLINE]

    @property
    def badge(self) -> Badge:
        return self.cloud.badge(self.runner.status) if self.cloud else badges.runner_badge(self.runner.status)

    @property
    def is_single(self) -> bool:
        """Return whether the row itself describes the only instance, so that it needs no row of its own."""
        is_shown = not self.runner.description or not self.connected
        return not self.runner.allow_multiple_instances and len(self.connected) < 2 and is_shown


class RunnersPage(msgspec.Struct, frozen=True):
    rows: list[RunnerRow]
    counts: dict[str, int]
    """The number of matching runners, by status and for `ALL`."""
    status: RunnerStatus | None
    search: str
    page: int
    pages: int
    head: GroupHead | None = None
    """The group whose runners are shown; None for the whole organization and the shared runners."""
    outdated: OutdatedRunners | None = None
    """The runners that have a lower version than the latest release, whatever the page is limited to."""
    may_update: bool = False
    """Whether the reader may change one of them; nobody updates shared runners from here."""

    @property
    def group(self) -> str:
        return self.head.group.path if self.head else ""


async def read_page(
    tx: Tx, who: Principal, status: RunnerStatus | None, search: str, page: int, group: str = ""
) -> RunnersPage:
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    within = reads.RunnerScope(who.organization_id or "", is_shared=service.is_shared_seen(who))
    head = await group_page.read_head(tx, who, group) if group else None
    if head is not None and head.group.path:
        within = reads.RunnerScope(head.group.organization_id, head.group.id, head.group.path)
    typed = patterns(search)
    by_status = await reads.counts(tx, seen, within, typed)
    counts = {"ALL": sum(by_status.values())} | {each.value: by_status.get(each.value, 0) for each in RunnerStatus}
    pages = max(1, -(-counts[status.value if status else "ALL"] // PAGE_ROWS))
    page = min(max(1, page), pages)
    ids = await reads.by_path(tx, seen, within, status and status.value, typed, (page - 1) * PAGE_ROWS, PAGE_ROWS)
    rows = await _rows(tx, who, await view_reads.views_of(tx, ids))
    old = await rollout.read_outdated(tx, seen, within)
    may_update = old is not None and await rollout.is_updatable(tx, who, within, old.latest)
    return RunnersPage(rows, counts, status, search, page, pages, head, old, may_update)


async def _rows(tx: Tx, who: Principal, runners: list[RunnerView]) -> list[RunnerRow]:
    changeable = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    readable = await authorize.visible(tx, who, Verb.JOB_READ)
    current: dict[str, list[CurrentJob]] = {}
    for row in await runner_reads.current(tx, [each.id for each in runners if each.jobs], MAX_CURRENT_JOBS):
        if readable.covers(authorize.module(row["organization_id"], row["path"])):
            current.setdefault(row["runner_id"], []).append(CurrentJob(row["id"], row["number"], row["path"]))
    clouds = await cloud.states(tx, runners)
    return [
        RunnerRow(each, changeable.covers(service.place(each)), current.get(each.id, []), clouds.get(each.id))
        for each in runners
    ]


@get("/")
async def list_page(
    request: DashboardCall,
    status: FromQuery[RunnerStatus | None] = None,
    q: FromQuery[str] = "",
    page: FromQuery[int] = 1,
    group: FromQuery[str] = "",
) -> Response[Any]:
    async def read(tx: Tx, who: Principal, watch: Watch) -> dict[str, Any]:
        return {
            "page": await read_page(tx, who, status, q, page, group),
            "jobs": [] if group else await job_rows.read_open(tx, who, watch),
            "groups": await forms.offer_groups(tx, who, Verb.RUNNER_WRITE),
        }

    found = await request.read(read, request.watch)
    shown = edit.registration(RegisterForm(group=found["page"].group, assign=True))
    return await render.page(request, "runners/list", **found, **shown)
