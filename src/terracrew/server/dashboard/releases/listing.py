"""All releases, and the notes of those between two versions; templates see this module as `release_words`."""

from datetime import datetime
from itertools import pairwise

import msgspec

from terracrew import __version__
from terracrew.api.runners import Runner, RunnerView
from terracrew.protocol.messages import Installation
from terracrew.server.dashboard import markdown
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.releases import rollout
from terracrew.server.dashboard.releases.rollout import RolloutPanel
from terracrew.server.dashboard.words import counted
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules, service, store
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import service as rollouts
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runners import service as runners
from terracrew.server.runners import version_reads, view_reads
from terracrew.source_rules.version_ranges import parse_version

PAGE_ROWS = 30
MAX_CHOICES = 100
"""How many versions each field offers."""
MAX_SHOWN_RELEASES = 50
LATEST = Badge("ok", "circle", "Latest")
WITHDRAWN = Badge("bad", "slash", "Withdrawn")
BREAKING = Badge("warn", "mark", "Breaking")
INSTALLATIONS = {
    "pip": "installed with pip",
    "pipx": "installed with pipx",
    "uv": "installed with uv",
    "systemd": "a service of systemd",
    "container": "in a container",
    "helm": "installed with Helm",
    "source": "from a checkout of the sources",
    "server": "part of the server",
}
LINKS = ("https://", "http://")


class ReleaseRow(msgspec.Struct, frozen=True):
    release: Release
    badges: list[Badge]
    before: str
    """The version of the release before it; empty for the first one."""
    instances: int
    """How many connected instances that the reader may see have it."""

    @property
    def in_short(self) -> str:
        return in_short(self.release)


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
        ReleaseRow(each, release_badges(each, newest), before.get(each.version, ""), _count(in_use, each.version))
        for each in shown
    ]
    may_withdraw = await authorize.may(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
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


class VersionChoice(msgspec.Struct, frozen=True):
    version: str
    words: str


class NotesPage(msgspec.Struct, frozen=True):
    since: str
    """The version before the first release that is shown; empty to begin with the first release of all."""
    until: str
    releases: list[Release]
    """The highest one first."""
    latest: str
    sinces: list[VersionChoice]
    untils: list[VersionChoice]
    runner: RunnerView | None = None
    """The runner that the notes are read for."""
    command: str = ""
    """The command that updates this runner by hand."""
    is_cut: bool = False
    """Whether there are more releases between the versions than are shown."""

    def badges(self, release: Release) -> list[Badge]:
        return release_badges(release, self.latest)

    @property
    def count_words(self) -> str:
        if not self.releases:
            return ""
        breaking = sum(each.is_breaking and not each.is_withdrawn for each in self.releases)
        counts = counted(len(self.releases), "release") + (f", {breaking:,} breaking" if breaking else "")
        return f"the newest {counts}" if self.is_cut else counts

    @property
    def markdown(self) -> str:
        """Return all notes as one text."""
        return "\n\n".join(as_markdown(each) for each in self.releases)


async def read_notes(tx: Tx, who: Principal, rules_: RolloutRules, since: str, until: str, runner: str) -> NotesPage:
    """Return the notes after `since` up to `until`, which is the latest release if it is empty.

    For a runner that the reader may change and has to update by hand, the page also has the command for that.
    """
    known = rules.newest_first(await store.versions(tx))
    latest = rules.latest(known, __version__)
    newest = latest.version if latest else known[0].version if known else ""
    record = await runners.find(tx, who, runner, Verb.RUNNER_READ) if runner else None
    view = await view_reads.view(tx, record) if record else None
    since, until = since or (view.version or "" if view and parse_version(view.version or "") else ""), until or newest
    wanted = rules.between(known, since, until)
    service.require_reader(who)
    return NotesPage(
        since=since,
        until=until,
        releases=await store.some(tx, [each.id for each in wanted[:MAX_SHOWN_RELEASES]]),
        latest=latest.version if latest else "",
        sinces=_sinces({each.version for each in known} | set(await version_reads.seen_by(tx, who)), since, view),
        untils=[VersionChoice(each.version, _until(each.version, newest)) for each in known[:MAX_CHOICES]],
        runner=view,
        command=await _command(tx, who, rules_, record)
        if record and view and view.is_outdated and until == newest
        else "",
        is_cut=len(wanted) > MAX_SHOWN_RELEASES,
    )


async def _command(tx: Tx, who: Principal, rules_: RolloutRules, runner: Runner) -> str:
    if not await authorize.may(tx, who, Verb.RUNNER_WRITE, runners.place(runner)):
        return ""
    found = await rollout.by_hand(tx, rules_, runner)
    return found.command if found else ""


def _sinces(versions: set[str], chosen: str, runner: RunnerView | None) -> list[VersionChoice]:
    """Return the versions to begin after, the highest first. What a runner reports is offered only if it is a version."""
    parsed = {str(version): version.order for each in {*versions, chosen} if (version := parse_version(each))}
    ordered = sorted(parsed, key=lambda each: parsed[each], reverse=True)[:MAX_CHOICES]
    of_runner = str(parse_version(runner.version or "")) if runner else ""
    found = [
        VersionChoice(each, f"{each}, {runner.name}" if runner and each == of_runner else each) for each in ordered
    ]
    return [*found, VersionChoice("", "the beginning")] if found else []


def _until(version: str, latest: str) -> str:
    return f"{version}, latest" if version == latest else version


def release_badges(release: Release, latest: str) -> list[Badge]:
    """Return the badges of a release; `latest` is the version of the latest one."""
    if release.is_withdrawn:
        return [WITHDRAWN]
    found = [LATEST] if release.version == latest else []
    return [*found, BREAKING] if release.is_breaking else found


def in_short(release: Release) -> str:
    """Return one line about a release: why it was withdrawn, what it breaks, or the first sentence of its notes."""
    if release.is_withdrawn:
        return markdown.brief(release.withdrawn_reason)
    return markdown.brief(release.breaking_words) or markdown.brief(release.notes)


def installation(found: Installation) -> str:
    """Return how a runner was installed; empty if that is not known."""
    return INSTALLATIONS.get(found.kind, "")


def link(release: Release) -> str:
    """Return the address of a release elsewhere; empty if it has none that a browser may be sent to."""
    return release.link if release.link.lower().startswith(LINKS) else ""


def day(moment: datetime, now: datetime) -> str:
    """Return the day of a moment, with the year if it is another one."""
    return f"{moment.day} {moment:%b}" if moment.year == now.year else f"{moment.day} {moment:%b %Y}"


def as_markdown(release: Release) -> str:
    """Return the notes of a release as a section of a Markdown text."""
    head = f"## {release.version} ({release.released_at:%Y-%m-%d})"
    if release.is_withdrawn:
        return f"{head}\n\nWithdrawn: {release.withdrawn_reason}"
    before = f"**Before you update:** {release.breaking_words}\n\n" if release.is_breaking else ""
    return f"{head}\n\n{before}{release.notes}".rstrip()
