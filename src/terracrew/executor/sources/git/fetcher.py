"""A source that is a git repository: its commit is resolved once for a job, and its files are written into the workspace."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from terracrew.executor.sources import archive
from terracrew.executor.sources.contract import Deadline, FetchContext, FetchLimits
from terracrew.executor.sources.git import credential
from terracrew.executor.sources.git.checkout import DIGEST_PREFIX, Checkout
from terracrew.executor.sources.git.merge_pack import MergePack
from terracrew.executor.sources.git.revisions import Revision
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import GitSource, KnownRevision
from terracrew.source_rules import git as rules


class GitFetcher:
    def __init__(self, limits: FetchLimits | None = None) -> None:
        self._limits = limits or FetchLimits()

    async def fetch(self, source: GitSource, workspace: Path, context: FetchContext) -> SourceResolved:
        rules.check(source)  # the server has done this, too, but a runner does not rely on it
        pack = source.upload
        merge = MergePack(source.merge, await archive.content(pack, context)) if source.merge and pack else None
        say = partial(asyncio.get_running_loop().call_soon_threadsafe, context.say)
        deadline = Deadline(self._limits, context.control)
        return await asyncio.to_thread(_fetch, source, workspace, context, deadline, say, merge)


def _fetch(
    source: GitSource,
    workspace: Path,
    context: FetchContext,
    deadline: Deadline,
    say: Callable[[str], object],
    merge: MergePack | None,
) -> SourceResolved:
    with credential.given(source, context.variables.get(source.credential), context.scratch) as given:
        checkout = Checkout(workspace, context, deadline, say, submodules=source.submodules, credential=given)
        if merge is not None:
            revision = Revision(source.commit, merge.result.words)
            say(f"The source is the {revision.words}, which the server has made as the commit {revision.commit}")
        else:
            revision = checkout.pinned() or checkout.resolve(source)
        checkout.write(source.url, revision, merge)
    moved = moved_tag(revision, context.known_revisions)
    if moved is not None:
        say(
            f"Warning: the {revision.words} has moved: in job {moved.number} it was the commit {moved.commit}, and now it is "
            f"{revision.commit}"
        )
    words = "" if revision.words.startswith("commit ") else f", {revision.words}"
    return SourceResolved(
        digest=f"{DIGEST_PREFIX}{revision.commit}",
        description=f"git {source.url}{words}, commit {revision.commit[:12]}",
        commit=revision.commit,
        revision=revision.words,
        moved_from=moved.commit if moved else "",
    )


def moved_tag(revision: Revision, known: Sequence[KnownRevision]) -> KnownRevision | None:
    """Return the earlier job for which this tag was another commit, if its tag has moved. A branch is expected to move."""
    if not revision.words.startswith("tag "):
        return None
    last = next((each for each in known if each.revision == revision.words), None)
    return last if last is not None and last.commit != revision.commit else None


SOURCE = GitFetcher()
