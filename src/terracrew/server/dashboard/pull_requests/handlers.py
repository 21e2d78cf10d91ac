"""The handlers of the pages of pull requests, and what they show."""

from typing import Any, get_args

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.pull_requests import (
    AllowCommit,
    ApplyPullRequest,
    PullRequestCommand,
    PullRequestFilter,
    PullRequestListed,
    PullRequestOutcome,
    PullRequestView,
)
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http.request import tree_path
from terracrew.server.pull_requests import service

HERE = "/dashboard/pull-requests"
PAGE_ROWS = 50
_FILTERS: tuple[PullRequestFilter, ...] = get_args(PullRequestFilter)


class PullRequestsPage(msgspec.Struct, frozen=True):
    pull_requests: list[PullRequestListed]
    only: PullRequestFilter
    next: str | None
    after: str | None


class ModuleForm(msgspec.Struct, frozen=True):
    """A button of one module, or of all that a pull request touches."""

    module: str = ""
    commit: str = ""
    """The newest commit that the page has shown."""
    plans: str = ""
    """The ids of the jobs whose plans the page has shown."""

    @property
    def modules(self) -> list[str]:
        return [self.module] if self.module else []


@get("/")
async def list_page(
    request: DashboardCall, only: FromQuery[str] = "open", after: FromQuery[str | None] = None
) -> Response[Any]:
    chosen = _chosen(only)
    found = await request.read(service.listing, chosen, after, PAGE_ROWS)
    shown = PullRequestsPage(found.items, chosen, found.next, after)
    return await render.page(request, "pull_requests/list", page=shown)


@get("/{pull_request:str}")
async def one_page(request: DashboardCall, pull_request: FromPath[str]) -> Response[Any]:
    found: PullRequestView = await request.read(service.show, tree_path(pull_request))
    can_apply = any(each.state == "changes" and each.apply.startswith("on_command") for each in found.touched)
    return await render.page(request, "pull_requests/pull_request", page=found, can_apply=can_apply)


@post("/{pull_request:str}/plan")
async def plan(request: DashboardCall, pull_request: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ModuleForm)
    tools, asked = request.context.pull_requests, PullRequestCommand(modules=form.modules)
    return _said(
        request, pull_request, await service.command(tools, request.user, tree_path(pull_request), "plan", asked)
    )


@post("/{pull_request:str}/apply")
async def apply(request: DashboardCall, pull_request: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ModuleForm)
    tools, asked = (
        request.context.pull_requests,
        ApplyPullRequest(modules=form.modules, head_commit=form.commit, plans=form.plans.split()),
    )
    return _said(
        request, pull_request, await service.command(tools, request.user, tree_path(pull_request), "apply", asked)
    )


@post("/{pull_request:str}/cancel")
async def cancel(request: DashboardCall, pull_request: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ModuleForm)
    tools, asked = request.context.pull_requests, PullRequestCommand(modules=form.modules)
    return _said(
        request, pull_request, await service.command(tools, request.user, tree_path(pull_request), "cancel", asked)
    )


@post("/{pull_request:str}/allow")
async def allow(request: DashboardCall, pull_request: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ModuleForm)
    found = await request.write(service.allow, tree_path(pull_request), AllowCommit(commit=form.commit))
    return _said(request, pull_request, found)


def _chosen(only: str) -> PullRequestFilter:
    for each in _FILTERS:
        if each == only:
            return each
    return "open"


def _said(request: DashboardCall, pull_request: str, found: PullRequestOutcome) -> Response[Any]:
    return render.done(request, found.message[:1].upper() + found.message[1:], f"{HERE}/{pull_request}")
