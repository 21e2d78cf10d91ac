"""Modules by their groups, each with its newest job; and one with everything that stands in its way."""

from itertools import groupby

import msgspec

from terracrew.server.dashboard.queries import jobs, nav, states
from terracrew.server.dashboard.views import ModulePage, ModuleRow, ModulesPage
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import service
from terracrew.server.modules import reads
from terracrew.server.modules import service as modules
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report
from terracrew.server.runs.reasons import Watch

MAX_RECENT_JOBS = 20
PAGE_ROWS = 50


async def listing(tx: Tx, who: Principal, search: str, after: str = "") -> ModulesPage:
    """Return a page of the modules that match a search, by group and name; `after` is the path of the last module of the page before."""
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    runnable = await authorize.visible(tx, who, Verb.JOB_RUN)
    organization_id, most = who.organization_id or "", nav.MAX_COUNTED + 1
    found = await reads.search(tx, organization_id, seen, search, after, most)
    ids = found[: PAGE_ROWS + 1]
    rows = {row["id"]: row_to(ModuleRow, row) for row in await reads.with_newest_job(tx, ids)}
    shown = [
        msgspec.structs.replace(row, may_run=runnable.covers(authorize.module(row.organization_id, row.path)))
        for row in (rows[each] for each in ids[:PAGE_ROWS] if each in rows)
    ]
    count = len(await reads.search(tx, organization_id, seen, search, "", most) if after else found)
    groups = [(group, list(of)) for group, of in groupby(shown, key=lambda row: row.group)]
    return ModulesPage(groups, search, count, after, shown[-1].path if len(ids) > PAGE_ROWS and shown else "")


async def page(tx: Tx, who: Principal, name: str, watch: Watch) -> ModulePage:
    module = await modules.find(tx, who, name, Verb.TREE_READ)
    place = authorize.module(module.organization_id, module.path)
    return ModulePage(
        module=module,
        lock=await service.lock(tx, module.id),
        doubts=await attempt_report.doubts(tx, module.id),
        quarantine=await states.quarantine(tx, who, module.id, place),
        jobs=(await jobs.listing(tx, who, "", module.path, None, watch, MAX_RECENT_JOBS)).rows,
        may_run=(await authorize.visible(tx, who, Verb.JOB_RUN)).covers(place),
    )
