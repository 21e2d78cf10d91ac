"""The organizations pages: those that the reader may act in, and for administrators the forms that create and change them."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.groups import OrganizationDetails
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.identity.access import organizations
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.tree.groups import organizations as service

HERE = "/dashboard/organizations"
PAGE_ROWS = 50


class NewOrganizationForm(msgspec.Struct, frozen=True):
    name: str = ""
    owner: str = ""


@get("/")
async def list_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    found = await request.read(organizations.listing, after, PAGE_ROWS)
    shown: dict[str, Any] = {"page": found, "after": after, "wrong": "", "form": NewOrganizationForm()}
    return await render.page(request, "access/organizations/list", **shown)


@get("/create")
async def create_page(request: DashboardCall) -> Response[Any]:
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
    return await _create_answer(request, NewOrganizationForm(), "")


@post("/create", status_code=200, in_any_organization=True)
async def create(request: DashboardCall) -> Response[Any]:
    form, who = await forms.read(request, NewOrganizationForm), request.user
    name, owner = form.name.strip(), form.owner.strip() or None
    await authorize.require(request.context.db, who, Verb.SERVER_ADMIN, authorize.SERVER)
    try:
        await request.write(organizations.create, name, owner)
    except (Invalid, Conflict, NotFound) as error:
        return await _create_answer(request, form, error.message)
    return render.go(request, HERE)


async def _create_answer(request: DashboardCall, form: NewOrganizationForm, wrong: str) -> Response[Any]:
    return await render.page(request, "access/organizations/create", form=form, wrong=wrong)


@get("/{organization:str}")
async def organization_page(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    return await _answer(request, organization, "")


@post("/{organization:str}/rename", status_code=200, in_any_organization=True)
async def rename(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, forms.NameForm)
    try:
        made = await request.write(service.rename, organization, form.name.strip())
    except (Invalid, Conflict) as error:
        return await _answer(request, organization, error.message)
    return render.go(request, f"{HERE}/{made.id}")


@post("/{organization:str}/choose", in_any_organization=True)
async def choose(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    """Let this session act in another organization."""
    await request.write(organizations.choose_for_session, organization)
    return render.go(request, "/dashboard/groups")


@post("/{organization:str}/delete", in_any_organization=True)
async def delete(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    await request.write(organizations.delete, organization)
    return render.go(request, HERE)


async def _answer(request: DashboardCall, organization: str, wrong: str) -> Response[Any]:
    found: OrganizationDetails = await request.read(organizations.show, organization)
    return await render.page(
        request,
        "access/organizations/organization",
        organization=found,
        wrong=wrong,
    )
