"""The alert of the runners page: which runners are outdated, as far as the reader sees them."""

import msgspec

from terracrew import __version__
from terracrew.server.dashboard.words import counted
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules, store
from terracrew.server.rollouts import planning
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runners import outdated, version_reads
from terracrew.server.runners.model import Runner
from terracrew.server.runners.reads import RunnerScope
from terracrew.source_rules.version_ranges import parse_version
from terracrew.wording.update_words import ByHand

MAX_COUNTED = 1_000
MAX_NAMED = 3


class OutdatedRunners(msgspec.Struct, frozen=True):
    latest: str
    count: int
    """At most one more than MAX_COUNTED."""
    named: list[tuple[str, str]]
    """The paths and versions of the first ones."""
    oldest: str
    """The lowest version that one of them has."""

    @property
    def title(self) -> str:
        if self.count > MAX_COUNTED:
            return f"More than {MAX_COUNTED:,} runners are outdated"
        return f"{counted(self.count, 'runner')} {'is' if self.count == 1 else 'are'} outdated"

    @property
    def names(self) -> str:
        """Return which ones they are, in words."""
        by_version: dict[str, list[str]] = {}
        for path, version in self.named:
            by_version.setdefault(version, []).append(path)
        parts = [f"{' and '.join(each)} {'runs' if len(each) == 1 else 'run'} {v}" for v, each in by_version.items()]
        more = f", and {self.count - len(self.named):,} more" if len(self.named) < self.count <= MAX_COUNTED else ""
        return "; ".join(parts) + more


async def by_hand(tx: Tx, rules_: RolloutRules, runner: Runner) -> ByHand | None:
    """Return how a person updates an outdated runner to the latest release; None if the server can do that."""
    release = await planning.latest(tx, rules_)
    return None if release is None else (await rules_.updaters.by_hand(tx, [runner], release)).get(runner.id)


async def is_updatable(tx: Tx, who: Principal, within: RunnerScope, latest: str) -> bool:
    """Return whether the reader may change an outdated runner that is not shared. Shared ones are updated with their server."""
    changeable = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    own = msgspec.structs.replace(within, is_shared=False)
    return any(outdated.is_outdated(each, latest) for each in await version_reads.current(tx, changeable, own))


async def read(tx: Tx, seen: Visible, within: RunnerScope) -> OutdatedRunners | None:
    """Return the outdated runners of a part of the tree; None if there are none."""
    latest = rules.latest(await store.versions(tx), __version__)
    if latest is None:
        return None
    versions = await version_reads.current(tx, seen, within)
    old = [each for each in versions if outdated.is_outdated(each, latest.version)]
    if not old:
        return None
    parsed = {each: version.order for each in old if (version := parse_version(each))}
    old.sort(key=lambda each: parsed[each])
    found = sorted((await version_reads.having(tx, seen, within, old, MAX_COUNTED + 1)).values())
    return OutdatedRunners(latest.version, min(len(found), MAX_COUNTED + 1), found[:MAX_NAMED], old[0])
