"""The handlers of the pages of discovery rules."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery
from msgspec.structs import replace

from terracrew.api import fields
from terracrew.api.discovery import DiscoveryChange, DiscoveryRuleView, NewDiscoveryRule
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError, TooLarge, Unavailable
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.discovery import page
from terracrew.server.dashboard.discovery.page import EMPTY, HERE, MAX_SHOWN_FOLDERS, NewRuleForm, RulePage
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import service
from terracrew.server.principals.model import Principal


class GroupForm(msgspec.Struct, frozen=True):
    """The group of a new rule, which the form sends along."""

    group: str = ""


@get("/")
async def list_page(request: DashboardCall, after: FromQuery[str | None] = None) -> Response[Any]:
    return await render.page(request, "discovery/list", page=await request.read(page.read_list, after))


@get("/create")
async def create_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    return await _answer(request, await request.read(page.read_new, group), {}, None)


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    typed, found = await _read_new(request)
    try:
        made = await request.write(service.create, _new_rule(found, typed))
    except (Invalid, Conflict) as error:
        return await _answer(request, found, typed, error)
    return render.go(request, f"{HERE}/{made.id}")


@post("/create/preview", status_code=200)
async def preview_new(request: DashboardCall) -> Response[Any]:
    """Show what a rule would make, beside its form."""
    typed, found = await _read_new(request)
    try:
        preview = await service.preview(request.context.discovery, request.user, _new_rule(found, typed))
    except (Invalid, Conflict, NotFound, TooLarge, Unavailable) as error:
        return await _answer(request, found, typed, error)
    return await _answer(request, replace(found, preview=preview), typed, None)


@get("/{rule:str}")
async def rule_page(request: DashboardCall, rule: FromPath[str]) -> Response[Any]:
    return await _answer(request, await request.read(page.read_one, rule), {}, None)


@post("/{rule:str}", status_code=200)
async def save(request: DashboardCall, rule: FromPath[str]) -> Response[Any]:
    typed = await forms.read_texts(request)

    async def work(tx: Tx, who: Principal) -> DiscoveryRuleView:
        return await service.change(tx, who, rule, _change(await page.read_one(tx, who, rule), typed))

    try:
        await request.write(work)
    except (Invalid, Conflict) as error:
        return await _answer(request, await request.read(page.read_one, rule), typed, error)
    return render.go(request, f"{HERE}/{rule}")


@post("/{rule:str}/preview", status_code=200)
async def preview(request: DashboardCall, rule: FromPath[str]) -> Response[Any]:
    """Show what a rule would make with what is typed into its form."""
    typed, found = await forms.read_texts(request), await request.read(page.read_one, rule)
    try:
        made = await service.preview_of(request.context.discovery, request.user, rule, _change(found, typed))
    except (Invalid, Conflict, NotFound, TooLarge, Unavailable) as error:
        return await _answer(request, found, typed, error)
    return await _answer(request, replace(found, preview=made), typed, None)


@post("/{rule:str}/run")
async def run(request: DashboardCall, rule: FromPath[str]) -> Response[Any]:
    await request.write(service.run, rule)
    return render.go(request, f"{HERE}/{rule}")


@post("/{rule:str}/delete")
async def delete(request: DashboardCall, rule: FromPath[str]) -> Response[Any]:
    found = await request.write(service.delete, rule)
    return render.go(request, f"/dashboard/groups/{found.group_id}")


async def _read_new(request: DashboardCall) -> tuple[dict[str, str], RulePage]:
    form, typed = await forms.read(request, GroupForm), await forms.read_texts(request)
    return typed, await request.read(page.read_new, form.group)


def _new_rule(found: RulePage, typed: Mapping[str, str]) -> NewDiscoveryRule:
    change = field_forms.from_form(found.shown, typed, NewRuleForm, EMPTY)
    return fields.changed(EMPTY, change, group=found.group.path)


def _change(found: RulePage, typed: Mapping[str, str]) -> DiscoveryChange:
    return field_forms.from_form(found.shown, typed, DiscoveryChange, found.settings)


async def _answer(
    request: DashboardCall, found: RulePage, typed: Mapping[str, str], error: TerracrewError | None
) -> Response[Any]:
    return await render.page(
        request,
        "discovery/rule",
        page=found,
        form=field_forms.show_form(found.shown, found.settings, typed),
        wrong=field_forms.place_error(found.shown, error) if error else {},
        most_folders=MAX_SHOWN_FOLDERS,
    )
