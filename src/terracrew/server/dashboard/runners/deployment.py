"""The page of a deployment: what was asked for, the job that makes it, live, and what it costs. Its forms deploy again, wake and remove."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.deployments import DeploymentView, DestroyRequest
from terracrew.api.fleet_jobs import FleetJobView
from terracrew.api.runners import RunnerView
from terracrew.errors import Conflict, Invalid
from terracrew.server.cloud_hosted import deploying
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners import cloud, deploy, page
from terracrew.server.dashboard.runners.cloud import CloudState
from terracrew.server.dashboard.runners.deploy import Costs
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service, view_reads


class DeploymentPage(msgspec.Struct, frozen=True):
    runner: RunnerView
    deployment: DeploymentView
    cloud: CloudState
    job: FleetJobView | None
    """The last fleet job of the runner, with its steps."""
    may_change: bool
    costs: Costs

    @property
    def badge(self) -> Badge:
        return self.cloud.badge(self.runner.status)

    @property
    def is_working(self) -> bool:
        return self.job is not None and not self.job.is_terminal


async def read(tx: Tx, who: Principal, reference: str) -> DeploymentPage:
    record = await service.find(tx, who, reference, Verb.RUNNER_READ)
    runner = await view_reads.view(tx, record)
    found = await deploying.show(tx, who, record.id)
    state = (await cloud.states(tx, [runner]))[record.id]
    return DeploymentPage(
        runner,
        found,
        state,
        await fleet_jobs.view(tx, found.job) if found.job else None,
        await authorize.may(tx, who, Verb.RUNNER_WRITE, service.place(runner)),
        deploy.costs_of(found.kind, found.region, found.settings),
    )


@get("/{runner:str}/deployment")
async def deployment_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    return await _answer(request, runner)


@post("/{runner:str}/deployment", status_code=200)
async def deploy_again(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    """Deploy a runner again with what is in the form."""
    typed, image = await forms.read_texts(request), request.context.cloud_runner_image
    try:
        await request.write(deploying.deploy_again, runner, deploy.change(typed), image)
    except (Invalid, Conflict) as error:
        wrong = deploy.place_error(error) if isinstance(error, Invalid) else {"": error.message}
        return await _answer(request, runner, typed, wrong)
    return render.go(request, f"{page.address(runner)}/deployment")


@post("/{runner:str}/wake")
async def wake(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    found = await request.write(deploying.wake, runner)
    return render.done(request, f"Waking {found.path}", page.address(found.runner_id))


@get("/{runner:str}/destroy")
async def destroy_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    """Show what is removed. Only the button of the page removes it."""
    return await _ask(request, runner, "")


@post("/{runner:str}/destroy")
async def destroy(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    wanted = await forms.read(request, DestroyRequest)
    try:
        made = await request.write(deploying.destroy, runner, wanted)
    except Conflict as error:
        return await _ask(request, runner, error.message)
    return render.go(request, f"{page.address(made.runner.id)}/deployment")


async def _ask(request: DashboardCall, runner: str, wrong: str) -> Response[Any]:
    await request.read(service.find, runner, Verb.RUNNER_WRITE)
    status, found = Conflict.status if wrong else 200, await request.read(read, runner)
    return await render.template(request, "runners/destroy_page.html", status, page=found, wrong=wrong)


async def _answer(
    request: DashboardCall, runner: str, typed: Mapping[str, str] | None = None, wrong: Mapping[str, str] | None = None
) -> Response[Any]:
    found = await request.read(read, runner)
    form = deploy.to_form(found.deployment.settings)
    if typed is not None:
        form = {name: typed.get(name, "") for name in form}
    shown: dict[str, Any] = {"form": form, "sizes": deploy.sizes(form["size"]), "architectures": deploy.ARCHITECTURES}
    fragment = "" if typed is None else "runners/deployment_form"
    return await render.page(request, "runners/deployment", fragment, page=found, wrong=wrong or {}, **shown)
