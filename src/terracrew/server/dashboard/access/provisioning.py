"""The page on which owners let an identity provider manage people and groups, and see whom it manages."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.pages import Page
from terracrew.api.provisioning import (
    AdoptPerson,
    NewProvisioner,
    ProvisionedGroupListed,
    ProvisionedListed,
    ProvisionerDetails,
)
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.engine_services import SCIM_BASE
from terracrew.server.identity.access import service as accounts
from terracrew.server.identity.provisioning import owners
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

HERE = "/dashboard/provisioning"
PAGE_ROWS = 50
MAX_OFFERED = 100


class ProvisionerForm(msgspec.Struct, frozen=True):
    account: str = ""
    provider: str = ""


class AdoptForm(msgspec.Struct, frozen=True):
    user: str = ""
    user_name: str = ""
    external_id: str = ""


class ProvisioningPage(msgspec.Struct, frozen=True):
    provisioner: ProvisionerDetails | None
    people: Page[ProvisionedListed]
    groups: list[ProvisionedGroupListed]
    accounts: list[str]
    """The paths of the service accounts that may be chosen."""
    providers: list[str]
    may_change: bool


async def read_page(tx: Tx, who: Principal, base: str, after: str | None) -> ProvisioningPage:
    try:
        found = await owners.show(tx, who, base)
    except NotFound:
        found = None
    may_change = await authorize.may(tx, who, Verb.ACCESS_WRITE, authorize.organization(who.organization_id))
    known = (await accounts.accounts(tx, who, "", None, MAX_OFFERED)).items if may_change else []
    return ProvisioningPage(
        found,
        await owners.list_people(tx, who, after, PAGE_ROWS),
        (await owners.list_groups(tx, who, None, MAX_OFFERED)).items,
        [each.path for each in known if not each.group],
        await owners.provider_names(tx, who),
        may_change,
    )


@get("/")
async def provisioning_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    return await _answer(request, after=after)


@post("/", status_code=200)
async def choose(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, ProvisionerForm, strip=True)
    try:
        await request.write(owners.choose, NewProvisioner(form.account, form.provider), _base(request))
    except (Invalid, Conflict, NotFound) as error:
        return await _answer(request, form=form, wrong=error.message)
    return render.go(request, HERE)


@post("/remove")
async def remove(request: DashboardCall) -> Response[Any]:
    await request.write(owners.remove)
    return render.go(request, HERE)


@post("/people", status_code=200)
async def adopt(request: DashboardCall) -> Response[Any]:
    form = await forms.read(request, AdoptForm, strip=True)
    try:
        await request.write(owners.adopt, AdoptPerson(form.user, form.user_name, form.external_id))
    except (Invalid, Conflict, NotFound) as error:
        return await _answer(request, adopting=form, wrong_person=error.message)
    return render.go(request, HERE)


@post("/people/{user:str}/release")
async def release(request: DashboardCall, user: FromPath[str]) -> Response[Any]:
    await request.write(owners.release, user)
    return render.go(request, HERE)


def _base(request: DashboardCall) -> str:
    return request.context.identity.url + SCIM_BASE


async def _answer(request: DashboardCall, after: str | None = None, **given: Any) -> Response[Any]:
    found = await request.read(read_page, _base(request), after)
    chosen = found.provisioner
    form = ProvisionerForm(chosen.account, chosen.provider) if chosen else ProvisionerForm()
    shown: dict[str, Any] = {
        "form": form,
        "adopting": AdoptForm(),
        "wrong": "",
        "wrong_person": "",
        "after": after,
    } | given
    return await render.page(request, "access/provisioning/provisioning", page=found, **shown)
