"""The page on which an owner brings a state that OpenTofu or Terraform wrote elsewhere into a module."""

from typing import Any

from litestar import Response, Router, get
from litestar.params import FromPath

from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.db.seam import Tx
from terracrew.server.state import importing
from terracrew.server.tree.groups import level_reads
from terracrew.server.tree.groups.model import Group
from terracrew.server.tree.modules.model import Module

HERE = "/dashboard/modules"


@get("/{module:str}/import-state")
async def import_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    async def read(tx: Tx) -> tuple[Module, list[Group]]:
        found = await importing.find(tx, request.user, module)
        return found, (await level_reads.lineage(tx, found.group_id))[::-1]

    found, groups = await request.context.db.read(read)
    name = "state_import/page.html"
    return await render.page(request, name, name, module=found, groups=groups, max_bytes=importing.MAX_IMPORTED_BYTES)


pages = Router(HERE, route_handlers=[import_page], exception_handlers=HANDLERS, include_in_schema=False)
