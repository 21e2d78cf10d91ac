"""The pages of fleet jobs: their list, and one job with its steps, its log and what a cancel would remove."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobView, FleetLine
from terracrew.server.cloud_identities import store as identities
from terracrew.server.dashboard import badges, render
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import reads, service
from terracrew.server.fleet_jobs.reads import FleetJobFilter
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads as runners

HERE = "/dashboard/fleet-jobs"
MAX_SHOWN_LINES = 1_000
MAX_LISTED_JOBS = 50


class FleetJobList(msgspec.Struct, frozen=True):
    jobs: list[FleetJob]
    next: str | None
    status: str
    """The status that it is limited to, or an empty text."""
    after: str


class FleetJobPage(msgspec.Struct, frozen=True):
    job: FleetJobView
    lines: list[FleetLine]
    """The last lines of the log."""
    is_cut: bool
    """Whether the log has earlier lines."""
    target_url: str
    """The page of the runner or identity that it is about; empty if that does not exist any more."""
    may_cancel: bool

    @property
    def badge(self) -> Badge:
        return badges.fleet_job_badge(self.job)


async def read(tx: Tx, who: Principal, reference: str) -> FleetJobPage:
    job = await service.show(tx, who, reference)
    lines = await reads.last_lines(tx, job.id, MAX_SHOWN_LINES + 1)
    may_cancel = not job.is_terminal and job.canceled_at is None and await service.may_cancel(tx, who, job)
    return FleetJobPage(
        job, lines[-MAX_SHOWN_LINES:], len(lines) > MAX_SHOWN_LINES, await _target_url(tx, job), may_cancel
    )


async def _target_url(tx: Tx, job: FleetJob) -> str:
    if job.runner_id is None:
        is_there = await identities.find(tx, job.identity_id) is not None
        return f"/dashboard/cloud-identities/{job.identity_id}" if is_there else ""
    return f"/dashboard/runners/{job.runner_id}" if await runners.places(tx, [job.runner_id]) else ""


@get("/")
async def list_page(
    request: DashboardCall, status: FromQuery[FleetJobStatus | None] = None, after: FromQuery[str] = ""
) -> Response[Any]:
    wanted = FleetJobFilter(status=status)
    found = await request.read(service.listing, wanted, after or None, MAX_LISTED_JOBS)
    shown = FleetJobList(found.items, found.next, status.value if status else "", after)
    return await render.page(request, "runners/fleet_jobs/list", page=shown)


@get("/{fleet_job:str}")
async def job_page(request: DashboardCall, fleet_job: FromPath[str]) -> Response[Any]:
    found = await request.read(read, fleet_job)
    return await render.page(request, "runners/fleet_jobs/job", page=found)


@post("/{fleet_job:str}/cancel")
async def cancel(request: DashboardCall, fleet_job: FromPath[str]) -> Response[Any]:
    handlers = request.context.fleet_handlers
    job = await request.write(service.cancel, fleet_job, handlers)
    said = f"Job #{job.number:,} is canceled" if job.is_terminal else f"Job #{job.number:,} is being canceled"
    return render.done(request, said, f"{HERE}/{job.id}")
