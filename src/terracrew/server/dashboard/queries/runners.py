"""Runners as rows of their page: searched, counted by status, and a page at a time."""

from terracrew.server.dashboard.views import RunnerRow, RunnersPage
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.search import patterns
from terracrew.server.groups import reads as group_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service, views
from terracrew.server.runners.model import RunnerStatus

PAGE_ROWS = 50
MAX_GROUPS = 300


async def listing(tx: Tx, who: Principal, status: RunnerStatus | None, search: str, page: int) -> RunnersPage:
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    within = reads.RunnerScope(who.organization_id or "", is_shared=service.is_shared_seen(who))
    words = patterns(search)
    found = await reads.counts(tx, seen, within, words)
    counts = {"ALL": sum(found.values())} | {each.value: found.get(each.value, 0) for each in RunnerStatus}
    pages = max(1, -(-counts[status.value if status else "ALL"] // PAGE_ROWS))
    page = min(max(1, page), pages)
    ids = await reads.by_path(tx, seen, within, status and status.value, words, (page - 1) * PAGE_ROWS, PAGE_ROWS)
    changeable = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    shown = await views.views_of(tx, ids)
    rows = [RunnerRow(each, changeable.covers(service.place(each))) for each in shown]
    return RunnersPage(rows, counts, status, search, page, pages)


async def groups(tx: Tx, who: Principal) -> list[str]:
    """Return the paths of groups in which the reader may make a runner, as many as a form can offer."""
    allowed = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    return await group_reads.paths(tx, who.organization_id or "", allowed, MAX_GROUPS)
