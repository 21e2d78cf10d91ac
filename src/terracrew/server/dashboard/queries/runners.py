"""Runners as rows of their page: searched, counted by status, and a page at a time."""

from terracrew.server.dashboard.views import RunnerRow, RunnersPage
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service, views
from terracrew.server.runners.model import RunnerStatus
from terracrew.server.search import patterns

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
    if allowed.is_nothing:
        return []
    if allowed.is_everything(who.organization_id or ""):
        rows = await tx.all(
            "SELECT path FROM groups WHERE organization_id = :id ORDER BY path LIMIT :most",
            id=who.organization_id,
            most=MAX_GROUPS,
        )
    else:
        rows = await tx.all(
            visibility.SEEN_GROUPS
            + """ SELECT groups.path FROM seen_groups JOIN groups ON groups.id = seen_groups.id
            ORDER BY groups.path LIMIT :most""",
            most=MAX_GROUPS,
            **visibility.params(allowed),
        )
    return [row["path"] for row in rows]
