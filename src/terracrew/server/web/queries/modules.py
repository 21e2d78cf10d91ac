"""Modules by their groups, each with its newest job."""

from itertools import groupby

import msgspec

from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Tx
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.web.views import ModuleRow, ModulesPage

_ROWS = """
SELECT modules.id, modules.organization_id, modules.path, modules.name, groups.path AS "group", modules.description,
    modules.engine, modules.source, modules.state_version, jobs.id AS job_id, jobs.number AS job_number,
    jobs.type AS job_type, jobs.status AS job_status,
    coalesce(jobs.finished_at, jobs.started_at, jobs.created_at) AS job_at,
    (SELECT min(name) FROM steps
        WHERE steps.job_id = jobs.id AND steps.attempt = jobs.attempt AND steps.status = 'RUNNING') AS job_step
FROM modules JOIN groups ON groups.id = modules.group_id
LEFT JOIN jobs ON jobs.id = (SELECT max(newest.id) FROM jobs AS newest WHERE newest.module_id = modules.id)
WHERE modules.organization_id = :organization_id ORDER BY groups.path, modules.name"""


async def listing(tx: Tx, who: Principal, search: str) -> ModulesPage:
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    runnable = await authorize.visible(tx, who, Verb.JOB_RUN)
    words = search.lower().split()
    rows: list[ModuleRow] = []
    for found in await tx.all(_ROWS, organization_id=who.organization_id):
        row = row_to(ModuleRow, found)
        place = authorize.module(row.organization_id, row.path)
        if seen.covers(place) and all(word in f"{row.path} {row.description}".lower() for word in words):
            rows.append(msgspec.structs.replace(row, may_run=runnable.covers(place)))
    groups = [(group, list(of)) for group, of in groupby(rows, key=lambda row: row.group)]
    return ModulesPage(groups, search, len(rows))
