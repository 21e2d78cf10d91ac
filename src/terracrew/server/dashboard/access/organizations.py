"""The organizations pages: those that the reader may act in, and for administrators the forms that create and change them."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.groups import OrganizationDetails
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.identity.access import organizations
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.tree.groups import organizations as service

HERE = "/dashboard/organizations"
PAGE_ROWS = 50


class NewOrganizationForm(msgspec.Struct, frozen=True):
    name: str = ""
    owner: str = ""


class RenameForm(msgspec.Struct, frozen=True):
    name: str = ""


@get("/")
async def list_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    who = request.user
    found = await request.context.db.read_in_background(lambda tx: organizations.listing(tx, who, after, PAGE_ROWS))
    shown: dict[str, Any] = {"page": found, "after": after, "wrong": "", "form": NewOrganizationForm()}
    return await render.page(request, "access/organizations/list_page.html", "access/organizations/list.html", **shown)


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
        await request.context.db.write(lambda tx: organizations.create(tx, who, name, owner))
    except (Invalid, Conflict, NotFound) as error:
        return await _create_answer(request, form, error.message)
    return render.go(request, HERE)


async def _create_answer(request: DashboardCall, form: NewOrganizationForm, wrong: str) -> Response[Any]:
    return await render.page(
        request, "access/organizations/create_page.html", "access/organizations/create.html", form=form, wrong=wrong
    )


@get("/{organization:str}")
async def organization_page(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    return await _answer(request, organization, "")


@post("/{organization:str}/rename", status_code=200, in_any_organization=True)
async def rename(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    form, who = await forms.read(request, RenameForm), request.user
    try:
        made = await request.context.db.write(lambda tx: service.rename(tx, who, organization, form.name.strip()))
    except (Invalid, Conflict) as error:
        return await _answer(request, organization, error.message)
    return render.go(request, f"{HERE}/{made.id}")


@post("/{organization:str}/choose", in_any_organization=True)
async def choose(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    """Let this session act in another organization."""
    who = request.user
    await request.context.db.write(lambda tx: organizations.choose_for_session(tx, who, organization))
    return render.go(request, "/dashboard/groups")


@post("/{organization:str}/delete", in_any_organization=True)
async def delete(request: DashboardCall, organization: FromPath[str]) -> Response[Any]:
    who = request.user
    await request.context.db.write(lambda tx: organizations.delete(tx, who, organization))
    return render.go(request, HERE)


async def _answer(request: DashboardCall, organization: str, wrong: str) -> Response[Any]:
    who = request.user
    found: OrganizationDetails = await request.context.db.read_in_background(
        lambda tx: organizations.show(tx, who, organization)
    )
    return await render.page(
        request,
        "access/organizations/organization_page.html",
        "access/organizations/organization.html",
        organization=found,
        wrong=wrong,
    )


pages = Router(
    HERE,
    route_handlers=[list_page, create_page, create, organization_page, rename, choose, delete],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
