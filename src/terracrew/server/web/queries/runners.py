"""Runners as rows of their page: searched, counted by status, and a page at a time."""

from terracrew.server.db.seam import Tx
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.runners import service
from terracrew.server.runners.model import RunnerStatus, RunnerView
from terracrew.server.web.views import RunnerRow, RunnersPage

PAGE = 100


async def listing(tx: Tx, who: Principal, status: RunnerStatus | None, search: str, page: int) -> RunnersPage:
    words = search.lower().split()
    found = [each for each in await everything(tx, who) if all(word in _text(each) for word in words)]
    counts = {"ALL": len(found)} | {each.value: sum(view.status is each for view in found) for each in RunnerStatus}
    chosen = sorted((each for each in found if status in (None, each.status)), key=lambda each: each.path)
    pages = max(1, -(-len(chosen) // PAGE))
    page = min(max(1, page), pages)
    changeable = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    rows = [RunnerRow(each, changeable.covers(_place(each))) for each in chosen[(page - 1) * PAGE : page * PAGE]]
    return RunnersPage(rows, counts, status, search, page, pages)


async def everything(tx: Tx, who: Principal) -> list[RunnerView]:
    found: list[RunnerView] = []
    after: str | None = None
    while True:
        part = await service.listing(tx, who, None, None, after, 200)
        found += part.items
        if (after := part.next) is None:
            return found


def _text(runner: RunnerView) -> str:
    names = " ".join(each.name for each in runner.instances)
    return f"{runner.path} {runner.description} {runner.region or ''} {names} {' '.join(runner.tags)}".lower()


def _place(runner: RunnerView) -> authorize.Place:
    if runner.organization_id is None:
        return authorize.SERVER
    return authorize.group(runner.organization_id, runner.group or "")
