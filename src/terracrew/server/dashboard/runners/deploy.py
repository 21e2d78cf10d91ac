"""The page that deploys a runner in a cloud account: its form, what it costs, and what a deployment makes."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromQuery

from terracrew.clouds.model import AwsAccount, CloudKind
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.cloud_hosted import deploying
from terracrew.server.cloud_hosted.model import DeployedRunner, NewCloudRunner
from terracrew.server.cloud_identities import service as identities
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.runners import deployment_form, rows
from terracrew.server.dashboard.runners.deployment_form import Costs, DeployForm
from terracrew.server.dashboard.runners.page import HERE
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import tree_path

MAX_IDENTITIES = 200
FIRST = DeployForm(has_public_address=True, assign=True)


class IdentityChoice(msgspec.Struct, frozen=True):
    """A cloud identity that the form offers."""

    path: str
    kind: CloudKind
    place: str
    """The number of the account, or the namespace of a cluster."""
    region: str


class DeployPage(msgspec.Struct, frozen=True):
    form: DeployForm
    identities: list[IdentityChoice]
    groups: list[str]
    costs: Costs
    has_default_image: bool

    @property
    def chosen(self) -> IdentityChoice | None:
        """Return the identity that is chosen, or the first one."""
        return _chosen(self.identities, self.form.identity)


@get("/deploy")
async def deploy_page(
    request: DashboardCall, group: FromQuery[str] = "", identity: FromQuery[str] = ""
) -> Response[Any]:
    return await _answer(request, msgspec.structs.replace(FIRST, group=group, identity=identity), {})


@get("/deploy/costs")
async def costs(request: DashboardCall) -> Response[Any]:
    """Return what a runner costs with what is typed in the form now."""
    typed = {name: value for name, value in request.query_params.items() if isinstance(value, str)}
    form = msgspec.convert(
        {name: value for name, value in typed.items() if name in DeployForm.__struct_fields__}, DeployForm, strict=False
    )
    return await _answer(request, form, {}, "runners/costs.html")


@post("/deploy", status_code=200)
async def deploy(request: DashboardCall) -> Response[Any]:
    form, who, image = await forms.read(request, DeployForm), request.user, request.context.cloud_runner_image
    if not await request.context.db.read_in_background(lambda tx: rows.read_groups(tx, who)):
        raise Forbidden("you may not add a runner: ask an owner of a group for a role")
    try:
        wanted = _wanted(form)

        async def work(tx: Tx) -> DeployedRunner:
            return await deploying.deploy(tx, who, wanted, image)

        made = await request.context.db.write(work)
    except Invalid as error:
        return await _answer(request, form, deployment_form.placed(error))
    except (Conflict, Forbidden, NotFound) as error:
        field = "identity" if "cloud identity" in error.message else "name" if isinstance(error, Conflict) else "group"
        return await _answer(request, form, {field: error.message})
    return render.go(request, f"{HERE}/{made.runner.id}/deployment")


def _wanted(form: DeployForm) -> NewCloudRunner:
    try:
        tree_path.name(form.name.strip())
    except Invalid as error:
        raise Invalid(error.message, field="name") from None
    chosen = deployment_form.settings(form)
    return forms.convert(
        {
            "name": form.name.strip(),
            "group": form.group,
            "identity": form.identity,
            "description": form.description.strip(),
            "tags": forms.split(form.tags),
            "assign": form.assign,
            "settings": chosen,
        },
        NewCloudRunner,
    )


async def _answer(
    request: DashboardCall, form: DeployForm, wrong: dict[str, str], fragment: str = "runners/deploy_form.html"
) -> Response[Any]:
    who, image = request.user, request.context.cloud_runner_image

    async def read(tx: Tx) -> DeployPage:
        offered = await _identities(tx, who)
        return DeployPage(form, offered, await rows.read_groups(tx, who), _costs(form, offered), bool(image))

    found = await request.context.db.read_in_background(read)
    return await render.page(
        request,
        "runners/deploy_page.html",
        fragment,
        page=found,
        wrong=wrong,
        sizes=deployment_form.sizes(form.size),
        architectures=deployment_form.ARCHITECTURES,
    )


async def _identities(tx: Tx, who: Principal) -> list[IdentityChoice]:
    """Return the identities that the reader may see, by path."""
    found = await identities.listing(tx, who, None, MAX_IDENTITIES)
    return sorted((_choice(each) for each in found.items), key=lambda each: each.path)


def _choice(record: IdentityRecord) -> IdentityChoice:
    cloud = record.settings
    if isinstance(cloud, AwsAccount):
        return IdentityChoice(record.path, "aws", cloud.role_arn.split(":")[4], cloud.region)
    return IdentityChoice(record.path, "kubernetes", cloud.namespace, "")


def _chosen(offered: list[IdentityChoice], path: str) -> IdentityChoice | None:
    return next((each for each in offered if each.path == path), offered[0] if offered else None)


def _costs(form: DeployForm, offered: list[IdentityChoice]) -> Costs:
    """Return what the runner would cost; with settings that are not valid yet, what the usual ones cost."""
    chosen = _chosen(offered, form.identity)
    try:
        wanted = deployment_form.settings(form)
    except Invalid:
        wanted = deployment_form.settings(FIRST)
    kind, region = (chosen.kind, chosen.region) if chosen else ("aws", "")
    return deployment_form.costs(kind, region, wanted)


handlers = [deploy_page, costs, deploy]
