"""The handlers of the pages of a group: what is in it, its settings, a new group in it, and its deletion."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.groups import Group, GroupChange, GroupSettings, NewGroup
from terracrew.api.jobs import CancelMany
from terracrew.errors import Conflict, Invalid
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.field_forms import FormSection
from terracrew.server.dashboard.groups import page
from terracrew.server.dashboard.groups.page import HERE, GroupHead
from terracrew.server.dashboard.modules import settings
from terracrew.server.dashboard.modules.settings import place_name
from terracrew.server.db.seam import Tx
from terracrew.server.http import request as requests
from terracrew.server.jobs import bulk_cancel
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.registry import service as registry
from terracrew.server.tree.groups import service, tree_path
from terracrew.server.tree.groups.inheritance import DEFAULTS, EffectiveRule, effective_rule

ORGANIZATION = ""
"""The path of the organization, which is the root of the tree."""
TITLES = {
    "general": "General",
    "approval": "Approvals",
    "placement": "Jobs that run at once",
    "pull_requests": "Pull requests",
    "limits": "Limits of jobs",
    "dispatcher": "Dispatcher of jobs",
    "cloud": "Cloud logins",
}
"""The sections by the names that the fields of a group have for them, in the order of the page."""


class NewGroupForm(msgspec.Struct, frozen=True):
    name: str
    description: str = ""


class GroupSettingsPage(msgspec.Struct, frozen=True):
    head: GroupHead
    above: Mapping[str, EffectiveRule]
    """The approval rules that would apply if the group had none itself."""
    rules: Mapping[str, EffectiveRule]
    """The approval rules that apply."""
    contents: dict[str, int]
    """What is in the group, by kind; known to those who may change it."""

    @property
    def group(self) -> Group:
        return self.head.group

    @property
    def folder(self) -> str:
        return "groups/settings"

    @property
    def address(self) -> str:
        return f"{HERE}/{self.group.id}/settings"

    @property
    def settings(self) -> Group:
        return self.group

    @property
    def shown(self) -> dict[str, str]:
        return {}

    @property
    def sections(self) -> dict[str, FormSection]:
        above = self.head.lineage[1:]
        limits = [f"In {place_name(each)}: {each.max_running_jobs:,}" for each in above if each.max_running_jobs]
        notes = settings.describe_above(above) | {"placement": limits}
        return field_forms.make_sections(GroupSettings, TITLES, settings.describe_rules(self.above), notes)


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
    found = await request.read(page.read, request.context.keys, reference, groups_after, modules_after)
    return await render.page(request, "groups/group", page=found, wrong="")


@get("/{group:str}/create")
async def create_page(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    head = await request.read(_changeable, group)
    return await render.page(request, "groups/create", head=head, wrong="", form=NewGroupForm(""))


@post("/{group:str}/create", status_code=200)
async def create(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, NewGroupForm)

    async def work(tx: Tx, who: Principal) -> Group:
        parent = (await _changeable(tx, who, group)).group
        path = tree_path.join(parent.path, tree_path.name(form.name.strip()))
        new = NewGroup(path=path, description=form.description.strip())
        return await service.create(tx, who, new, make_parents=False)

    try:
        made = await request.write(work)
    except (Invalid, Conflict) as error:
        head = await request.read(_changeable, group)
        return await render.page(request, "groups/create", head=head, wrong=error.message, form=form)
    return render.go(request, f"{HERE}/{made.id}")


@get("/{group:str}/settings")
async def settings_page(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    """Show the forms to those who may change the group, and to others what applies."""
    return await field_forms.show_sections(request, await request.read(_read_settings, group))


@post("/{group:str}/settings/{section:str}", status_code=200)
async def change_settings(request: DashboardCall, group: FromPath[str], section: FromPath[str]) -> Response[Any]:
    reference = requests.tree_path(group)
    return await field_forms.change_section(
        request,
        section,
        GroupChange,
        lambda: request.read(_read_settings, group),
        lambda change: request.write(service.change, reference, change),
    )


async def _read_settings(tx: Tx, who: Principal, group: str) -> GroupSettingsPage:
    head = await page.read_head(tx, who, requests.tree_path(group))
    await service.show(tx, who, head.group.id)
    return GroupSettingsPage(
        head,
        {name: effective_rule(head.lineage[1:], name) for name in DEFAULTS},
        {name: effective_rule(head.lineage, name) for name in DEFAULTS},
        await service.contents(tx, head.group) if head.may_change else {},
    )


@post("/{group:str}/cancel-jobs")
async def cancel_jobs(request: DashboardCall, group: FromPath[str]) -> Response[Any]:
    """Cancel all jobs in and below a group that have not ended. Jobs that are queued meanwhile are not canceled."""
    db, who, reference = request.context.db, request.user, requests.tree_path(group)
    found = (await request.read(page.read_head, reference)).group
    await authorize.require(db, who, Verb.JOB_CANCEL, service.place(found))
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
    async def work(tx: Tx, who: Principal, reference: str) -> str | None:
        parent_id = (await page.read_head(tx, who, reference)).group.parent_id
        await registry.delete_group(tx, who, reference)
        return parent_id

    return render.go(request, f"{HERE}/{await request.write(work, requests.tree_path(group))}")


async def _changeable(tx: Tx, who: Principal, group: str) -> GroupHead:
    head = await page.read_head(tx, who, requests.tree_path(group))
    if not head.may_change:
        raise authorize.forbidden(Verb.TREE_WRITE, service.place(head.group))
    return head
