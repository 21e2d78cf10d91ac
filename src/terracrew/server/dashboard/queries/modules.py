"""Modules by their groups, each with its newest job; and one with everything that stands in its way."""

from itertools import groupby
from typing import LiteralString

import msgspec

from terracrew.server.dashboard.queries import jobs, module_search, nav, states
from terracrew.server.dashboard.views import ModulePage, ModuleRow, ModulesPage
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import service
from terracrew.server.modules import service as modules
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report
from terracrew.server.runs.reasons import Watch

MAX_RECENT_JOBS = 20
PAGE_ROWS = 50
_ROWS: LiteralString = f"""
SELECT modules.id, modules.organization_id, modules.path, modules.name, groups.path AS "group", modules.description,
    modules.engine, modules.source, modules.state_version, jobs.id AS job_id, jobs.number AS job_number,
    jobs.type AS job_type, jobs.status AS job_status, modules.needs_approval,
    (SELECT count(*) FROM states WHERE states.module_id = modules.id AND states.status = 'quarantined') AS quarantined,
    EXISTS (SELECT 1 FROM attempts JOIN jobs AS gone ON gone.id = attempts.job_id
        WHERE gone.module_id = modules.id AND attempts.is_in_doubt) AS is_in_doubt,
    (SELECT attempts.lost_at FROM jobs AS holder
        JOIN attempts ON attempts.job_id = holder.id AND attempts.number = holder.attempt
        WHERE holder.module_id = modules.id AND holder.status IN {ACTIVE_STATUSES}) AS orphaned_at,
    coalesce(jobs.finished_at, jobs.started_at, jobs.created_at) AS job_at,
    (SELECT min(name) FROM steps
        WHERE steps.job_id = jobs.id AND steps.attempt = jobs.attempt AND steps.status = 'RUNNING') AS job_step
FROM batch JOIN modules ON modules.id = batch.id JOIN groups ON groups.id = modules.group_id
LEFT JOIN jobs ON jobs.id = (SELECT max(newest.id) FROM jobs AS newest WHERE newest.module_id = modules.id)"""


async def listing(tx: Tx, who: Principal, search: str, after: str = "") -> ModulesPage:
    """Return a page of the modules that match a search, by group and name; `after` is the path of the last module of the page before."""
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    runnable = await authorize.visible(tx, who, Verb.JOB_RUN)
    found = await module_search.matching(tx, who, seen, search, after, nav.MAX_COUNTED + 1)
    ids = found[: PAGE_ROWS + 1]
    rows = {
        row["id"]: row_to(ModuleRow, row) for row in await tx.each(_ROWS, {"id": "text"}, [(each,) for each in ids])
    }
    shown = [
        msgspec.structs.replace(row, may_run=runnable.covers(authorize.module(row.organization_id, row.path)))
        for row in (rows[each] for each in ids[:PAGE_ROWS] if each in rows)
    ]
    count = len(await module_search.matching(tx, who, seen, search, "", nav.MAX_COUNTED + 1) if after else found)
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
