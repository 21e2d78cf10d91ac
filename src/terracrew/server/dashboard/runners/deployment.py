"""The page of a deployment: what was asked for, the job that makes it, live, and what it costs. Its forms deploy again, wake and remove."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.runners import RunnerStatus, RunnerView
from terracrew.errors import Conflict, Invalid
from terracrew.server.cloud_hosted import deploying
from terracrew.server.cloud_hosted.model import DeploymentView, DestroyRequest
from terracrew.server.dashboard import forms, render, words
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners import cloud, deployment_form, page
from terracrew.server.dashboard.runners.cloud import CloudState
from terracrew.server.dashboard.runners.deployment_form import Costs, DeploymentForm
from terracrew.server.dashboard.words import Badge
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.fleet_jobs.model import FleetJobView
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service, view_reads


class RunnerDestroyForm(msgspec.Struct, frozen=True):
    force: bool = False


class DeploymentPage(msgspec.Struct, frozen=True):
    runner: RunnerView
    deployment: DeploymentView
    state: CloudState
    job: FleetJobView | None
    """The last fleet job of the runner, with its steps."""
    may_change: bool
    costs: Costs

    @property
    def badge(self) -> Badge:
        return self.state.badge(self.runner.status)

    @property
    def is_working(self) -> bool:
        return self.job is not None and not self.job.is_terminal

    @property
    def made(self) -> int:
        """Return how many things the job has made so far."""
        return words.things_made(self.job.steps if self.job else [])

    @property
    def cancel_words(self) -> tuple[str, str]:
        assert self.job is not None
        return words.fleet_cancel_words(self.job, self.made)

    @property
    def can_wake(self) -> bool:
        return self.runner.status is RunnerStatus.ASLEEP and not self.state.refusal


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
        (await authorize.visible(tx, who, Verb.RUNNER_WRITE)).covers(service.place(runner)),
        deployment_form.costs(found.kind, found.region, found.settings),
    )


@get("/{runner:str}/deployment")
async def deployment_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    return await _answer(request, runner)


@post("/{runner:str}/deployment", status_code=200)
async def deploy_again(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    """Deploy a runner again with what is in the form."""
    form, who, image = await forms.read(request, DeploymentForm), request.user, request.context.cloud_runner_image
    try:
        wanted = deployment_form.again(form)
        await request.context.db.write(lambda tx: deploying.deploy_again(tx, who, runner, wanted, image))
    except Invalid as error:
        return await _answer(request, runner, form, deployment_form.placed(error))
    except Conflict as error:
        return await _answer(request, runner, form, {"": error.message})
    return render.go(request, f"{page.address(runner)}/deployment")


@post("/{runner:str}/wake")
async def wake(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    who = request.user
    found = await request.context.db.write(lambda tx: deploying.wake(tx, who, runner))
    return render.done(request, f"Waking {found.path}", page.address(found.runner_id))


@get("/{runner:str}/destroy")
async def destroy_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    """Show what is removed. Only the button of the page removes it."""
    return await _ask(request, runner, "")


@post("/{runner:str}/destroy")
async def destroy(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form, who = await forms.read(request, RunnerDestroyForm), request.user
    wanted = DestroyRequest(form.force)
    try:
        made = await request.context.db.write(lambda tx: deploying.destroy(tx, who, runner, wanted))
    except Conflict as error:
        return await _ask(request, runner, error.message)
    return render.go(request, f"{page.address(made.runner.id)}/deployment")


async def _ask(request: DashboardCall, runner: str, wrong: str) -> Response[Any]:
    async def work(tx: Tx) -> DeploymentPage:
        await service.find(tx, request.user, runner, Verb.RUNNER_WRITE)
        return await read(tx, request.user, runner)

    found = await request.context.db.read_in_background(work)
    answer = await render.page(request, "runners/destroy_page.html", page=found, wrong=wrong)
    answer.status_code = Conflict.status if wrong else 200
    return answer


async def _answer(
    request: DashboardCall, runner: str, form: DeploymentForm | None = None, wrong: dict[str, str] | None = None
) -> Response[Any]:
    found = await request.context.db.read_in_background(lambda tx: read(tx, request.user, runner))
    shown = form or deployment_form.of_settings(found.deployment.settings)
    return await render.page(
        request,
        "runners/deployment_page.html",
        "runners/deployment_form.html" if form else "runners/deployment.html",
        page=found,
        form=shown,
        wrong=wrong or {},
        sizes=deployment_form.sizes(shown.size),
        architectures=deployment_form.ARCHITECTURES,
    )


handlers = [deployment_page, deploy_again, wake, destroy_page, destroy]
