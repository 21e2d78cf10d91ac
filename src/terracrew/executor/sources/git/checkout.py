"""Writes a commit of a repository, with its submodules, into the workspace of an attempt."""

from collections.abc import Callable, Sequence
from pathlib import Path

from terracrew.errors import Conflict, NotFound
from terracrew.executor.sources.contract import FetchContext
from terracrew.executor.sources.git import remote_errors, revisions, submodules, tree
from terracrew.executor.sources.git.credential import GivenCredential
from terracrew.executor.sources.git.limits import Deadline
from terracrew.executor.sources.git.mirror import Mirror
from terracrew.executor.sources.git.mirrors import Mirrors
from terracrew.executor.sources.git.program import Git, GitFailed
from terracrew.executor.sources.git.revisions import Revision
from terracrew.executor.sources.git.tree import Submodule, Tree, TreeBudget
from terracrew.protocol.spec import FOLDER_MARK, GitSource

DIGEST_PREFIX = "git:"


class Checkout:
    """The files of one source, in a thread of its own. It is used once."""

    def __init__(
        self,
        workspace: Path,
        context: FetchContext,
        deadline: Deadline,
        say: Callable[[str], object],
        *,
        submodules: bool,
        credential: GivenCredential | None = None,
    ) -> None:
        self._workspace, self._context, self._has_submodules = workspace, context, submodules
        mirrors = context.cache / "git"
        self.git = Git(context.environment, deadline, say, credential, context.confinement, [workspace, mirrors])
        owner = f"{context.owner} {credential.identity if credential else ''}".strip()
        self._mirrors = Mirrors(mirrors, owner, self.git, deadline, say)
        self._budget = TreeBudget()
        self._links: list[str] = []
        self._submodules = 0

    def pinned(self) -> Revision | None:
        """Return the revision that an earlier attempt of the job has used; None for the first attempt."""
        digest = self._context.digest.partition(FOLDER_MARK)[0]
        commit = digest.removeprefix(DIGEST_PREFIX)
        if not digest.startswith(DIGEST_PREFIX) or not revisions.COMMIT.fullmatch(commit):
            return None
        return Revision(commit, self._context.revision or f"commit {commit[:12]}")

    def resolve(self, source: GitSource) -> Revision:
        """Return the revision that the source means now. What it names is fetched with the same request, if possible."""
        try:
            if (named := revisions.named(source)) and (commit := self._mirrors.fetch_ref(source.url, named[0])):
                return Revision(commit, named[1], named[0])
            return revisions.resolve(self.git, source)
        except GitFailed as error:
            raise remote_errors.explained(error, source.url, has_credential=self.git.has_credential) from error

    def write(self, url: str, revision: Revision) -> None:
        """Write all files. Raises if something of them must not be written."""
        has_left_out = self._write(url, revision, self._workspace, "", level=0)
        tree.check_links(self._workspace, self._links, url)
        if has_left_out:
            tree.remove_left_out(self._workspace)

    def _write(self, url: str, revision: Revision, to: Path, place: str, level: int) -> bool:
        """Write a repository and its submodules. Returns whether they may have files that do not belong to a source."""

        def write(mirror: Mirror) -> tuple[Tree, Sequence[tuple[Submodule, str]]]:
            found = tree.read(mirror, revision.commit)
            self._budget.check(found, url)
            tree.check_case(found, to, url)
            below = submodules.addresses(mirror, revision.commit, found.submodules) if self._has_submodules else []
            tree.write(mirror, revision.commit, to, self._mirrors.folder)
            return found, below

        try:
            found, below = self._mirrors.use(url, revision, write)
        except NotFound as error:
            if level or not self._context.digest:
                raise
            raise Conflict(
                f"an earlier attempt of this job has used the commit {revision.commit}, and {error}"
            ) from error
        self._budget.spend(found)
        self._links += [place + link for link in found.links]
        self._submodules += len(below)
        submodules.check_limits(self._submodules, level + 1 if below else 0, url)
        has_left_out = found.has_left_out
        for submodule, address in below:
            folder = submodules.folder_of(to, submodule)
            wanted = Revision(submodule.commit, f"commit {submodule.commit[:12]}")
            has_left_out |= self._write(address, wanted, folder, f"{place}{submodule.path}/", level + 1)
        return has_left_out
