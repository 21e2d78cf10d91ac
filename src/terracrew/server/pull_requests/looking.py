"""Looks at a pull request with git: fetches its commits, merges them, and finds what of the modules the merge changes."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from terracrew.errors import Invalid, NotFound, TooLarge, Unavailable
from terracrew.server.db.seam import Tx
from terracrew.server.forges.reads import GitModule
from terracrew.server.git import merging
from terracrew.server.git.configured_commits import ConfiguredCommit, ConfiguredCommits
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.source_graph import Root, SourceGraph
from terracrew.server.pull_requests.model import PullRequestSubject
from terracrew.server.pull_requests.tools import PullRequestTools

MISSED_SECONDS = 86_400.0
"""So long after its merge, a pull request counts of which nothing was known before."""


MAX_TRIES = 8
"""How often the commits of a merge are fetched, for about five minutes, before it is given up to learn what it has changed."""


class SourceLook(msgspec.Struct, frozen=True):
    """What was found at the two commits of a pull request."""

    head: str
    base: str
    commit: str = ""
    """The commit of the merge result; empty if there is none."""
    problem: str = ""
    """Why there is none, in words."""
    digests: Mapping[str, str] = {}
    """By the ids of all modules, what identifies their files after the merge; '' for one that has no folder then."""
    touched: frozenset[str] = frozenset()
    """The ids of those that the merge changes."""
    is_in_base: bool = False
    """Whether the merge changes no file at all, because the target branch has everything."""


class MergeLook(msgspec.Struct, frozen=True):
    """What was found of a pull request that is merged by now."""

    touched: frozenset[str] = frozenset()
    """The ids of the modules whose files it has changed."""
    problem: str = ""
    """Why that is not known."""


class Looking:
    """Remembers the last commits, so that the next look at a repository reads only what has changed."""

    def __init__(self) -> None:
        self._commits = ConfiguredCommits()

    async def look(
        self, tools: PullRequestTools, subject: PullRequestSubject, modules: Mapping[str, Root]
    ) -> SourceLook:
        """Fetch and merge, and compare the files of these modules before and after the merge.

        Raises ForgeAway, Unavailable, or another error in words if the repository cannot be fetched.
        """
        facts, key = subject.facts, subject.repository.mirror_key
        base = await _fetch(tools, subject, key)
        head = facts.head_commit
        if base is None:
            return SourceLook(head, "", problem=f"the branch {facts.base_branch} does not exist any more")
        if not await tools.mirrors.has(key, [head]):
            raise Unavailable(f"the commit {head[:12]} cannot be fetched yet")
        merged = await merging.merge(tools.mirrors, key, base, head)
        if not merged.commit:
            return SourceLook(head, base, problem=merged.problem)
        try:
            before = await self._graph(tools.mirrors, key, base, modules, None)
            after = await self._graph(tools.mirrors, key, merged.commit, modules, base)
        except TooLarge as error:
            return SourceLook(head, base, problem=error.message)
        old, new = await asyncio.to_thread(lambda: (_digests(before, modules), _digests(after, modules)))
        touched = frozenset(each for each in modules if old[each] != new[each])
        return SourceLook(head, base, merged.commit, digests=new, touched=touched, is_in_base=merged.is_unchanged)

    async def commits(
        self, tools: PullRequestTools, subject: PullRequestSubject, look: SourceLook
    ) -> tuple[ConfiguredCommit, ConfiguredCommit]:
        """Return what a look has read: the target branch, and the result of the merge."""
        key = subject.repository.mirror_key
        before = await self._commits.read(tools.mirrors, key, look.base)
        return before, await self._commits.read(tools.mirrors, key, look.commit, look.base)

    async def look_at_merge(
        self, tools: PullRequestTools, subject: PullRequestSubject, modules: Mapping[str, Root]
    ) -> MergeLook:
        """Find out which of these modules a pull request has changed that is merged by now.

        Raises Unavailable as long as the forge does not serve its commits yet.
        """
        facts, key, mirrors = subject.facts, subject.repository.mirror_key, tools.mirrors
        if await _fetch(tools, subject, key) is None:
            return MergeLook(problem=f"the branch {facts.base_branch} does not exist any more")
        wanted = {facts.head_commit, *filter(None, [facts.merge_commit])}
        known = await mirrors.has(key, wanted)
        if wanted - known and subject.row.failures < MAX_TRIES:
            raise Unavailable("the commits of the merge cannot be fetched yet")
        if facts.head_commit not in known:
            return MergeLook(problem="the forge does not serve its commits")
        merged_as = facts.merge_commit if facts.merge_commit in known else ""
        if not subject.row.head_commit and not await _is_recent(tools, key, merged_as):
            return MergeLook()
        before = await merging.fork_point(mirrors, key, facts.head_commit, merged_as, subject.row.base_commit)
        if not before:
            return MergeLook(problem="nothing says where its branch began")
        graphs = [
            await self._graph(mirrors, key, commit, modules, like)
            for commit, like in ((before, None), (facts.head_commit, before))
        ]
        old, new = await asyncio.to_thread(lambda: [_digests(each, modules) for each in graphs])
        return MergeLook(frozenset(each for each in modules if old[each] != new[each]))

    async def digests_at_base(
        self, tools: PullRequestTools, subject: PullRequestSubject, modules: Mapping[str, Root]
    ) -> dict[str, str]:
        """Return what the files of these modules are now in the branch that a pull request was merged into."""
        key = subject.repository.mirror_key
        base = await _fetch(tools, subject, key, with_head=False)
        if base is None:
            raise NotFound(f"the branch {subject.facts.base_branch} does not exist any more")
        graph = await self._graph(tools.mirrors, key, base, modules, None)
        return await asyncio.to_thread(_digests, graph, modules)

    async def _graph(
        self, mirrors: RepositoryMirrors, key: str, commit: str, modules: Mapping[str, Root], like: str | None
    ) -> SourceGraph:
        """`like`: a commit that has most files in common, whose files are known."""
        found = await self._commits.read(mirrors, key, commit, like)
        roots = sorted({each.folder for each in modules.values()})
        return await asyncio.to_thread(SourceGraph, found.entries, found.uses, roots)


async def _is_recent(tools: PullRequestTools, key: str, merged_as: str) -> bool:
    """Return whether a merge was made not long ago. A forge also tells of old ones, for example when somebody comments on them."""
    if not merged_as:
        return False
    now = await tools.db.read(_seconds)
    return await merging.committed_at(tools.mirrors, key, merged_as) > now - MISSED_SECONDS


def root_of(module: GitModule, watch: Sequence[str]) -> Root:
    return Root(module.folder, watch)


async def _fetch(
    tools: PullRequestTools, subject: PullRequestSubject, key: str, *, with_head: bool = True
) -> str | None:
    """Fetch the commits, and return the newest one of the target branch; None if there is no such branch."""
    facts, repository = subject.facts, subject.repository
    if not repository.clone_url:
        raise Unavailable("the forge has not yet told the address of the repository")
    login = await tools.forges.git_login(subject.connection, repository)
    base_ref = f"refs/heads/{facts.base_branch}"
    refs = [base_ref, facts.head_ref] if with_head else [base_ref]
    found = await tools.mirrors.fetch(key, subject.connection.organization_id, repository.clone_url, login, refs)
    if why := next((found.failed[each] for each in refs if each in found.failed), ""):
        raise Invalid(f"the commits of the pull request cannot be fetched: {why}")
    return found.commits.get(base_ref)


def _digests(graph: SourceGraph, modules: Mapping[str, Root]) -> dict[str, str]:
    return {module_id: graph.digest(root) for module_id, root in modules.items()}


async def _seconds(tx: Tx) -> float:
    return tx.now
