"""The form that decides which runners get the jobs of a module, how urgent they are, what they may use, and what starts them."""

import re
from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath
from msgspec import UNSET

from terracrew.errors import Invalid, NotFound
from terracrew.server.dashboard import clouds, dispatchers, forms, limits, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.dispatchers import DispatcherFields
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.db.seam import Tx
from terracrew.server.groups import level_reads
from terracrew.server.groups.model import Group
from terracrew.server.modules import service
from terracrew.server.modules.model import Module, ModuleChange
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import placement
from terracrew.server.runs.placement import Placement

HERE = "/dashboard/modules"
_BETWEEN_TAGS = re.compile(r"[,\s]+")


class PlacementForm(DispatcherFields, frozen=True):
    """The values as they were typed. An empty runner or instance means any."""

    runner: str = ""
    instance: str = ""
    tags: str = ""
    priority: str = ""
    triggers: str = ""
    """`auto` or `manual`; empty leaves it as it is."""
    is_fresh: bool = False


class PlacementPage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""
    placement: Placement


def typed(page: PlacementPage) -> PlacementForm:
    """Return the placement of a module as the form shows it."""
    now = page.placement
    tags = ", ".join(now.tags)
    return PlacementForm(
        now.runner_path or "",
        now.runner_instance_name or "",
        tags,
        str(page.module.priority),
        page.module.triggers,
        page.module.is_fresh,
        **limits.typed(page.module.limits),
        cloud=clouds.typed(page.module.cloud),
        **dispatchers.typed(page.module.dispatcher),
    )


def wanted(form: PlacementForm, before: Placement) -> ModuleChange:
    """Return the change that makes the placement of a module what the form says.

    A runner that was not changed is left out: it may have been removed, and the module then stays pinned to it.
    """
    runner = form.runner.strip()
    values = {
        "runner_instance_name": form.instance.strip() or None,
        "tags": [tag for tag in _BETWEEN_TAGS.split(form.tags) if tag],
        "priority": form.priority.strip() or "0",
        "is_fresh": form.is_fresh,
    }
    if form.triggers:
        values["triggers"] = form.triggers
    try:
        change = msgspec.convert(values, ModuleChange, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"these settings are not valid: {error}") from None
    is_same_runner = runner == (before.runner_path or "")
    return msgspec.structs.replace(
        change,
        runner=UNSET if is_same_runner else runner or None,
        limits=limits.wanted(form),
        cloud=clouds.wanted(form),
        dispatcher=dispatchers.wanted(form),
    )


async def _read(tx: Tx, request: DashboardCall, module: str) -> PlacementPage:
    found = await service.find(tx, request.user, module, Verb.TREE_WRITE)
    lineage = await level_reads.lineage(tx, found.group_id)
    return PlacementPage(found, lineage[::-1], await placement.of_module(tx, found.id))


@get("/{module:str}/placement")
async def placement_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    return await _answer(request, module)


@post("/{module:str}/placement", status_code=200)
async def change_placement(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form, context = await forms.read(request, PlacementForm), request.context

    async def work(tx: Tx) -> Module:
        page = await _read(tx, request, module)
        change = wanted(form, page.placement)
        return await service.change(tx, request.user, page.module.id, change, (), context.keys)

    await context.db.read(lambda tx: _read(tx, request, module))  # a missing module is not an error of the form
    try:
        made = await context.db.write(work)
    except (Invalid, NotFound) as error:
        return await _answer(request, module, form, error.message)
    return render.go(request, f"{HERE}/{made.id}")


async def _answer(
    request: DashboardCall, module: str, form: PlacementForm | None = None, wrong: str = ""
) -> Response[Any]:
    page = await request.context.db.read(lambda tx: _read(tx, request, module))
    shown = form or typed(page)
    return await render.page(request, "placement/page.html", "placement/form.html", page=page, form=shown, wrong=wrong)


pages = Router(
    HERE, route_handlers=[placement_page, change_placement], exception_handlers=HANDLERS, include_in_schema=False
)
