"""Writes a commit of a repository, with its submodules, into the workspace of an attempt."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.executor.sources.contract import Deadline, FetchContext
from terracrew.executor.sources.git import remote_errors, revisions, tree
from terracrew.executor.sources.git.credential import GivenCredential
from terracrew.executor.sources.git.merge_pack import MergePack
from terracrew.executor.sources.git.mirror import Mirror
from terracrew.executor.sources.git.mirrors import Mirrors
from terracrew.executor.sources.git.program import Git, GitFailed
from terracrew.executor.sources.git.revisions import Revision
from terracrew.executor.sources.git.tree import Submodule, Tree, TreeBudget
from terracrew.protocol.spec import FOLDER_MARK, GitSource
from terracrew.source_rules import git

DIGEST_PREFIX = "git:"


MAX_SUBMODULES = 100
"""The most submodules of one source, with the submodules of submodules."""
MAX_LEVELS = 5


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

    def write(self, url: str, revision: Revision, merge: MergePack | None = None) -> None:
        """Write all files. Raises if something of them must not be written. `merge` has what the repository lacks of the revision."""
        has_left_out = self._write(url, revision, self._workspace, "", 0, merge)
        tree.check_links(self._workspace, self._links, url)
        if has_left_out:
            tree.remove_left_out(self._workspace)

    def _write(
        self, url: str, revision: Revision, to: Path, place: str, level: int, merge: MergePack | None = None
    ) -> bool:
        """Write a repository and its submodules. Returns whether they may have files that do not belong to a source."""

        def write(mirror: Mirror) -> tuple[Tree, Sequence[tuple[Submodule, str]]]:
            found = tree.read(mirror, revision.commit)
            self._budget.check(found, url)
            tree.check_case(found, to, url)
            below = addresses(mirror, revision.commit, found.submodules) if self._has_submodules else []
            tree.write(mirror, revision.commit, to, self._mirrors.folder)
            return found, below

        try:
            found, below = self._mirrors.use(url, revision, write, merge)
        except NotFound as error:
            if level or not self._context.digest:
                raise
            raise Conflict(
                f"an earlier attempt of this job has used the commit {revision.commit}, and {error}"
            ) from error
        self._budget.spend(found)
        self._links += [place + link for link in found.links]
        self._submodules += len(below)
        check_limits(self._submodules, level + 1 if below else 0, url)
        has_left_out = found.has_left_out
        for submodule, address in below:
            folder = folder_of(to, submodule)
            wanted = Revision(submodule.commit, f"commit {submodule.commit[:12]}")
            has_left_out |= self._write(address, wanted, folder, f"{place}{submodule.path}/", level + 1)
        return has_left_out


def addresses(mirror: Mirror, commit: str, found: list[Submodule]) -> list[tuple[Submodule, str]]:
    """Return the submodules with their addresses. Raises Invalid if one has no address, or one that is not allowed."""
    if not found:
        return []
    known = _configured(mirror, commit)
    checked: list[tuple[Submodule, str]] = []
    for submodule in found:
        url = known.get(submodule.path)
        if url is None:
            raise Invalid(
                f"the repository {mirror.url} has the submodule {submodule.path!r}, but its file .gitmodules has no address "
                "for it"
            )
        whole = git.url_below(mirror.url, url)
        if problem := git.url_problem(whole):
            raise Invalid(f"the submodule {submodule.path!r} of the repository {mirror.url} is refused: {problem}")
        checked.append((submodule, whole))
    return checked


def check_limits(count: int, level: int, url: str) -> None:
    """Raise Invalid if a source has too many submodules, or submodules of submodules too many levels deep."""
    if count > MAX_SUBMODULES or level > MAX_LEVELS:
        raise Invalid(
            f"the repository {url} has submodules that make more than {MAX_SUBMODULES} in this source, or lie more than "
            f"{MAX_LEVELS} levels deep"
        )


def folder_of(workspace: Path, submodule: Submodule) -> Path:
    """Return the empty folder of a submodule. Raises Invalid if it is reached through a link."""
    folder = workspace / submodule.path
    if os.path.realpath(folder) != os.path.join(os.path.realpath(workspace), submodule.path):
        raise Invalid(f"the submodule {submodule.path!r} lies behind a symbolic link, so it is refused")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _configured(mirror: Mirror, commit: str) -> dict[str, str]:
    """Return the addresses in the file .gitmodules, by the paths of the submodules."""
    try:
        listed = mirror.run("config", "--blob", f"{commit}:.gitmodules", "--list", "-z")
    except GitFailed:
        return {}
    fields: dict[str, dict[str, str]] = {}
    for each in listed.decode(errors="replace").split("\0"):
        key, _, text = each.partition("\n")
        section, _, rest = key.partition(".")
        name, _, field = rest.rpartition(".")
        if section == "submodule" and name and field in ("path", "url"):
            fields.setdefault(name, {})[field] = text
    return {one["path"]: one["url"] for one in fields.values() if "path" in one and "url" in one}
