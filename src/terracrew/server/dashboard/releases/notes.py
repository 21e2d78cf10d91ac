"""The notes of all releases between two versions: a dialog, and a page for browsers without scripts."""

import msgspec

from terracrew import __version__
from terracrew.server.dashboard.releases import outdated, words
from terracrew.server.dashboard.words import Badge, counted
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules, service, store
from terracrew.server.releases.model import Release
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runners import service as runners
from terracrew.server.runners import version_reads, views
from terracrew.server.runners.model import Runner, RunnerView
from terracrew.source_rules.version_ranges import parse_version

MAX_CHOICES = 100
"""How many versions each field offers."""
MAX_SHOWN_RELEASES = 50


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
        return words.release_badges(release, self.latest)

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
        return "\n\n".join(words.as_markdown(each) for each in self.releases)


async def read(tx: Tx, who: Principal, rules_: RolloutRules, since: str, until: str, runner: str) -> NotesPage:
    """Return the notes after `since` up to `until`, which is the latest release if it is empty.

    For a runner that the reader may change and has to update by hand, the page also has the command for that.
    """
    known = rules.newest_first(await store.versions(tx))
    latest = rules.latest(known, __version__)
    newest = latest.version if latest else known[0].version if known else ""
    record = await runners.find(tx, who, runner, Verb.RUNNER_READ) if runner else None
    view = await views.view(tx, record) if record else None
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
    if not (await authorize.visible(tx, who, Verb.RUNNER_WRITE)).covers(runners.place(runner)):
        return ""
    found = await outdated.by_hand(tx, rules_, runner)
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
