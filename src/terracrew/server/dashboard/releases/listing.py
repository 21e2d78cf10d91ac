"""What the page of releases shows: all releases, the newest first, with what each is and how many instances have it."""

from itertools import pairwise

import msgspec

from terracrew import __version__
from terracrew.server.dashboard.releases import words
from terracrew.server.dashboard.releases.rollout import RolloutPanel
from terracrew.server.dashboard.words import Badge
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules, service, store
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import service as rollouts
from terracrew.server.runners import version_reads
from terracrew.source_rules.version_ranges import parse_version

PAGE_ROWS = 30


class ReleaseRow(msgspec.Struct, frozen=True):
    release: Release
    badges: list[Badge]
    before: str
    """The version of the release before it; empty for the first one."""
    instances: int
    """How many connected instances that the reader may see have it."""

    @property
    def in_short(self) -> str:
        return words.in_short(self.release)


class ReleasesPage(msgspec.Struct, frozen=True):
    rows: list[ReleaseRow]
    total: int
    page: int
    pages: int
    latest: str
    """The version of the latest release; empty if there is none."""
    oldest_in_use: str
    """The lowest version of an instance that is lower than the latest release; empty if there is none."""
    server_version: str
    may_withdraw: bool
    rollout: RolloutPanel | None = None
    """The newest roll-out that the reader may see."""


async def read(tx: Tx, who: Principal, page: int) -> ReleasesPage:
    service.require_reader(who)
    known = rules.newest_first(await store.versions(tx))
    latest = rules.latest(known, __version__)
    in_use = await version_reads.seen_by(tx, who)
    pages = max(1, -(-len(known) // PAGE_ROWS))
    page = min(max(1, page), pages)
    first = (page - 1) * PAGE_ROWS
    shown = await store.some(tx, [each.id for each in known[first : first + PAGE_ROWS]])
    before = {each.version: below.version for each, below in pairwise(known)}
    newest = latest.version if latest else ""
    rows = [
        ReleaseRow(each, words.release_badges(each, newest), before.get(each.version, ""), _count(in_use, each.version))
        for each in shown
    ]
    may_withdraw = (await authorize.visible(tx, who, Verb.SERVER_ADMIN)).covers(authorize.SERVER)
    rollout = await rollouts.newest(tx, who)
    return ReleasesPage(
        rows,
        len(known),
        page,
        pages,
        newest,
        _oldest(in_use, newest),
        __version__,
        may_withdraw,
        None if rollout is None else RolloutPanel(rollout, is_of_latest=rollout.version == newest),
    )


def _count(in_use: dict[str, int], version: str) -> int:
    wanted = parse_version(version)
    return sum(count for each, count in in_use.items() if parse_version(each) == wanted)


def _oldest(in_use: dict[str, int], latest: str) -> str:
    found = [parsed for each in in_use if rules.is_lower(each, latest) and (parsed := parse_version(each))]
    return str(min(found, key=lambda each: each.order)) if found else ""
