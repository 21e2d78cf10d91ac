"""States: those in quarantine, which are adopted or discarded, older versions, which are restored, and the comparison of two."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter

from terracrew.plan_diff.document import DiffQuery
from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import comparison, importing, quarantine, reads
from terracrew.server.tree.groups import reads as level_reads
from terracrew.server.tree.modules import service as modules

PAGE_ROWS = 50


class QuarantineRow(msgspec.Struct, frozen=True):
    """A state that did not become the current one by itself, and the state that it would replace."""

    id: str
    job_id: str
    job_number: int
    attempt: int
    origin: str
    serial: int
    lineage: str
    size: int
    created_at: datetime
    written_by: str = ""
    """Who wrote it at a terminal, if no job did."""
    runner_path: str | None = None
    problem: str = ""
    current_serial: int | None = None
    current_lineage: str | None = None
    current_at: datetime | None = None
    may_decide: bool = False
    backend: str = "terracrew"

    @property
    def obstacle(self) -> str:
        """Return why it cannot be adopted, or an empty string."""
        return quarantine.obstacle(self.problem, self.backend)

    @property
    def warning(self) -> str:
        """Return what speaks against adopting it, or an empty string."""
        if self.current_lineage is None:
            return ""
        if self.lineage != self.current_lineage:
            return "its lineage is not that of the current state, so it describes other resources"
        if self.current_serial is not None and self.serial <= self.current_serial:
            return "it is not newer than the current state, so adopting it takes the module back"
        return ""


async def rows(tx: Tx, who: Principal, module_id: str, place: authorize.Place) -> list[QuarantineRow]:
    """Return the states of a module that are in quarantine, oldest first."""
    found = await reads.quarantined(tx, module_id)
    if not found:
        return []
    may_decide = await authorize.may(tx, who, Verb.STATE_WRITE, place)
    return [row_to(QuarantineRow, {**row, "may_decide": may_decide}) for row in found]


@post("/dashboard/states/{version:str}/adopt")
async def adopt(request: DashboardCall, version: FromPath[str]) -> Response[Any]:
    after = await request.write(quarantine.adopt, version)
    said = f"The state with serial {after.serial} is the current one, as version {after.version}"
    return render.done(request, said, f"/dashboard/modules/{after.module_id}")


@post("/dashboard/states/{version:str}/discard")
async def discard(request: DashboardCall, version: FromPath[str]) -> Response[Any]:
    after = await request.write(quarantine.discard, version)
    return render.done(
        request, f"The state with serial {after.serial} is discarded", f"/dashboard/modules/{after.module_id}"
    )


@post("/dashboard/states/{version:str}/restore")
async def restore(request: DashboardCall, version: FromPath[str]) -> Response[Any]:
    after = await importing.restore(request.context.staging, request.user, version)
    said = (
        f"The older state is the current one again, as version {after.version}. The next change waits for an approval"
    )
    return render.done(request, said, f"/dashboard/modules/{after.module_id}")


@get("/dashboard/states/{version:str}/diff")
async def diff_page(
    request: DashboardCall,
    version: FromPath[str],
    other: Annotated[str | None, QueryParameter(name="with")] = None,
    q: Annotated[str, QueryParameter(max_length=200)] = "",
    start: Annotated[int, QueryParameter(ge=0, le=10_000)] = 0,
) -> Response[Any]:
    """Show what changed between two states of a module, by default since the version before."""
    context, who = request.context, request.user
    query = DiffQuery(search=q, start=start, count=PAGE_ROWS)
    compared = await comparison.read(
        context.db, context.objects, context.keys, context.diffs, who, version, other, query
    )
    module = await request.read(modules.find, compared.after.module_id, Verb.STATE_READ)
    shown: dict[str, Any] = {"module": module, "compared": compared, "other": other, "search": q, "start": start}
    return await render.template(request, "modules/states/diff_page.html", **shown)


@get("/dashboard/modules/{module:str}/import-state")
async def import_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    async def read(tx: Tx, who: Principal) -> dict[str, Any]:
        found = await importing.find(tx, who, module)
        return {"module": found, "groups": (await level_reads.lineage(tx, found.group_id))[::-1]}

    most, shown = importing.MAX_IMPORTED_BYTES, await request.read(read)
    return await render.template(request, "modules/states/import_page.html", max_bytes=most, **shown)
