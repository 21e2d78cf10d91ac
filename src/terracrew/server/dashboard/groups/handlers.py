"""The handlers of the pages of a group: what is in it, its settings, a new group in it, and its deletion."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.groups import Group, GroupChange, NewGroup
from terracrew.api.jobs import CancelMany
from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.groups import page, settings
from terracrew.server.dashboard.groups.page import HERE, GroupHead
from terracrew.server.dashboard.groups.settings import GroupSettingsPage
from terracrew.server.db.seam import Tx
from terracrew.server.http import request as requests
from terracrew.server.jobs import bulk_cancel
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service, tree_path

ORGANIZATION = ""
"""The path of the organization, which is the root of the tree."""
_FOLDER = "groups/settings"


class NewGroupForm(msgspec.Struct, frozen=True):
    name: str
    description: str = ""


@get("/")
async def organization_page(
    request: DashboardCall, groups_after: FromQuery[str] = "", modules_after: FromQuery[str] = ""
) -> Response[Any]:
    """Show the organization of the reader, which is a group, too."""
    return await _group_answer(request, ORGANIZATION, groups_after, modules_after)


@get("/{group:str}")
async def group_page(
    request: DashboardCall,
    group: FromPath[str],
    groups_after: FromQuery[str] = "",
    modules_after: FromQuery[str] = "",
) -> Response[Any]:
    return await _group_answer(request, requests.tree_path(group), groups_after, modules_after)


async def _group_answer(request: DashboardCall, reference: str, groups_after: str, modules_after: str) -> Response[Any]:
    who, keys = request.user, request.context.keys
    found = await request.context.db.read_in_background(
        lambda tx: page.read(tx, who, keys, reference, groups_after, modules_after)
    )
    return await render.page(request, "groups/group_page.html", "groups/group.html", page=found, wrong="")


@get("/{group:str}/create")
async def create_page(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    head = await request.context.db.read(lambda tx: _changeable(tx, request.user, group))
    return await render.page(request, "groups/create_page.html", head=head, wrong="", form=NewGroupForm(""))


@post("/{group:str}/create", status_code=200)
async def create(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    form, who = await forms.read(request, NewGroupForm), request.user

    async def work(tx: Tx) -> Group:
        parent = (await _changeable(tx, who, group)).group
        path = tree_path.join(parent.path, tree_path.name(form.name.strip()))
        return await service.create(
            tx, who, NewGroup(path=path, description=form.description.strip()), make_parents=False
        )

    try:
        made = await request.context.db.write(work)
    except (Invalid, Conflict) as error:
        head = await request.context.db.read(lambda tx: _changeable(tx, who, group))
        return await render.page(
            request, "groups/create_page.html", "groups/create.html", head=head, wrong=error.message, form=form
        )
    return render.go(request, f"{HERE}/{made.id}")


@get("/{group:str}/settings")
async def settings_page(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    """Show the forms to those who may change the group, and to others what applies."""
    found = await _settings(request, group)
    return await field_forms.show_sections(request, _FOLDER, found, _address(found))


@post("/{group:str}/settings/{section:str}", status_code=200)
async def change_settings(request: DashboardCall, group: FromPath[str], section: FromPath[str]) -> Response[Any]:
    before, typed, who = await _settings(request, group), await forms.read_texts(request), request.user
    shown = field_forms.find_section(before, section).fields
    try:
        change = field_forms.from_form(shown, typed, GroupChange, before.group)
        await request.context.db.write(lambda tx: service.change(tx, who, before.group.id, change))
    except Invalid as error:
        changed = section, typed, field_forms.place_error(shown, error)
        return await field_forms.show_sections(request, _FOLDER, before, _address(before), changed)
    after = await _settings(request, group)
    return await field_forms.show_saved(request, _FOLDER, after, _address(after), section)


@post("/{group:str}/cancel-jobs")
async def cancel_jobs(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    """Cancel all jobs in and below a group that have not ended. Jobs that are queued meanwhile are not canceled."""
    db, who, reference = request.context.db, request.user, requests.tree_path(group)

    async def find(tx: Tx) -> Group:
        head = await page.read_head(tx, who, reference)
        await authorize.require(tx, who, Verb.JOB_CANCEL, service.place(head.group))
        return head.group

    found = await db.read(find)
    counted = await bulk_cancel.cancel_many(db, who, CancelMany(group=found.id, count_only=True))
    ended = asked = 0
    after: str | None = "" if counted.matching else None
    while after is not None:
        done = await bulk_cancel.cancel_many(db, who, CancelMany(group=found.id, after=after, up_to=counted.up_to))
        ended, asked, after = ended + done.ended, asked + done.asked, done.next
    return render.done(request, _canceled(ended, asked), f"{HERE}/{found.id}")


def _canceled(ended: int, asked: int) -> str:
    """Say how many jobs were canceled at once, and how many that run were asked to end."""
    if not ended and not asked:
        return "There was no job to cancel"
    found = [f"{ended:,} canceled"] if ended else []
    return f"Jobs: {', '.join([*found, *([f'{asked:,} asked to end'] if asked else [])])}"


@post("/{group:str}/delete")
async def delete(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    who, reference = request.user, requests.tree_path(group)

    async def work(tx: Tx) -> str | None:
        parent_id = (await page.read_head(tx, who, reference)).group.parent_id
        await service.delete(tx, who, reference)
        return parent_id

    return render.go(request, f"{HERE}/{await request.context.db.write(work)}")


def _address(found: GroupSettingsPage) -> str:
    return f"{HERE}/{found.group.id}/settings"


async def _settings(request: DashboardCall, group: str) -> GroupSettingsPage:
    who, reference = request.user, requests.tree_path(group)
    return await request.context.db.read_in_background(lambda tx: settings.read(tx, who, reference))


async def _changeable(tx: Tx, who: Principal, group: str) -> GroupHead:
    head = await page.read_head(tx, who, requests.tree_path(group))
    if not head.may_change:
        raise authorize.forbidden(Verb.TREE_WRITE, service.place(head.group))
    return head


pages = Router(
    HERE,
    route_handlers=[
        organization_page,
        group_page,
        create_page,
        create,
        settings_page,
        change_settings,
        cancel_jobs,
        delete,
    ],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
