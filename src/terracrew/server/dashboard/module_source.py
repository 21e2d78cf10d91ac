"""The form that changes the source of a module: to another revision, another address, or another kind of source."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath

from terracrew.errors import Invalid, NotFound, TooLarge
from terracrew.server.dashboard import forms, render, source_fields
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.source_fields import SourceField, SourceFields
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.tree.groups import level_reads
from terracrew.server.tree.groups.model import Group
from terracrew.server.tree.modules import archives, service
from terracrew.server.tree.modules.model import Module, ModuleChange

HERE = "/dashboard/modules"


class SourcePage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""


async def _read(tx: Tx, request: DashboardCall, module: str) -> SourcePage:
    found = await service.find(tx, request.user, module, Verb.TREE_WRITE)
    return SourcePage(found, (await level_reads.lineage(tx, found.group_id))[::-1])


@get("/{module:str}/source")
async def source_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    return await _answer(request, module)


@post("/{module:str}/source", status_code=200)
async def change_source(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form, who, context = await forms.read(request, SourceFields), request.user, request.context
    page = await context.db.read(lambda tx: _read(tx, request, module))  # a missing module is not an error of the form
    try:
        change, roots = ModuleChange(source=source_fields.wanted(form)), context.local_roots
        await context.db.write(lambda tx: service.change(tx, who, page.module.id, change, roots, context.keys))
    except (Invalid, NotFound, TooLarge) as error:
        field, message = source_fields.place(form, error)
        return await _answer(request, module, form, {field: message})
    return render.go(request, f"{HERE}/{page.module.id}")


async def _answer(
    request: DashboardCall,
    module: str,
    form: SourceFields | None = None,
    wrong: dict[SourceField, str] | None = None,
) -> Response[Any]:
    page = await request.context.db.read(lambda tx: _read(tx, request, module))
    return await render.page(
        request,
        "module_source/page.html",
        "module_source/form.html",
        page=page,
        form=form or source_fields.typed(page.module.source),
        wrong=wrong or {},
        roots=[str(root) for root in request.context.local_roots],
        max_archive_bytes=archives.MAX_ARCHIVE_BYTES,
    )


pages = Router(HERE, route_handlers=[source_page, change_source], exception_handlers=HANDLERS, include_in_schema=False)
