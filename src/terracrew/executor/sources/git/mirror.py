"""A mirror: a bare repository in the runner's cache, with the commits that attempts needed so far and without their history."""

import contextlib
import os
from pathlib import Path

from terracrew.errors import NotFound
from terracrew.executor.sources.git import remote_errors
from terracrew.executor.sources.git.program import Git, GitFailed
from terracrew.executor.sources.git.revisions import Revision
from terracrew.system import trees

MAX_PACKS = 30
"""Each fetch adds a pack. When there are more, they are combined, because git looks for an object in all of them."""
MAX_KEPT_REVISIONS = 10
"""How many of the newest revisions are kept when packs are combined."""
_MAX_DEPTH = 2**31 - 1
_KEPT = "refs/terracrew/"
_NAMED = f"{_KEPT}named"
"""What the last ref that was fetched by its name was."""
INCOMING = "incoming-"
"""The beginning of the names of folders with packs that are not checked yet."""
_LEFT_BEHIND = ("*.lock", "refs/terracrew/*.lock", "objects/pack/tmp_*", "objects/tmp_*", "objects/pack/*.lock")
"""What a git that was killed leaves behind. It would make the next fetch fail, or stay forever."""


class Mirror:
    """One mirror. Its lock must be held: for a change while it fetches or is removed, for reading otherwise."""

    def __init__(self, git: Git, folder: Path, url: str) -> None:
        self._git, self.folder, self.url = git, folder, url

    @property
    def exists(self) -> bool:
        return (self.folder / "HEAD").is_file()

    def run(
        self, *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None, given: Path | None = None
    ) -> bytes:
        """Run a git command in the mirror that does not use the network."""
        return self._git.local(f"--git-dir={self.folder}", *arguments, env=env, cwd=cwd, given=given)

    def has(self, commit: str) -> bool:
        """Return whether this commit was fetched. A ref is kept for it, which is quicker to find than the commit itself."""
        try:
            if (self.folder / _KEPT / commit).read_text().strip() != commit:
                return False
        except OSError:
            return False
        os.utime(self.folder)  # mark it as used, so that others are removed first
        return True

    def fetch(self, revision: Revision) -> None:
        """Get the files of this revision, without its history. Raises NotFound if the repository does not have it."""
        self._prepare()
        try:
            self._fetch("--depth=1", f"+{revision.commit}:{_KEPT}{revision.commit}")
        except GitFailed as error:
            if not remote_errors.is_missing_commit(error):
                raise
        if not self.has(revision.commit) and revision.ref:  # an old server gives out only what its refs name
            self._fetch("--depth=1", f"+{revision.ref}:{_NAMED}")
            self.keep(revision.commit)
        if not self.has(revision.commit):
            depth = f"--depth={_MAX_DEPTH}"
            self._fetch(depth, "--prune", f"+refs/heads/*:{_KEPT}heads/*", f"+refs/tags/*:{_KEPT}tags/*")
            if not self.keep(revision.commit):
                raise NotFound(f"the repository {self.url} has no commit {revision.commit} (any more)")
        self._combine_packs()

    def fetch_ref(self, ref: str) -> str:
        """Get the files of what a ref names now, and return the commit. Raises GitFailed if there is no such ref."""
        self._prepare()
        self._fetch("--depth=1", f"+{ref}:{_NAMED}")
        commit = self.run("rev-parse", "--verify", "--end-of-options", f"{_NAMED}^{{commit}}").decode().strip()
        if not self.has(commit):
            self.keep(commit)
            self._combine_packs()
        return commit

    @property
    def is_intact(self) -> bool:
        """Whether everything is there that its refs need. This reads all of it, which takes a while for a large mirror."""
        try:
            self.run("fsck", "--connectivity-only", "--no-dangling", "--no-progress")
        except GitFailed:
            return False
        return True

    def remove(self) -> None:
        trees.remove(self.folder)

    def keep(self, commit: str) -> bool:
        """Make the ref of a commit. Returns False if the mirror does not have the commit."""
        try:
            self.run("update-ref", f"{_KEPT}{commit}", f"{commit}^{{commit}}")
        except GitFailed:
            return False
        return True

    def _prepare(self) -> None:
        if not self.exists:
            if self.folder.exists():
                self.remove()
            self._git.local("init", "--quiet", "--bare", "--template=", str(self.folder))
        for pattern in _LEFT_BEHIND:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        for path in self.folder.glob(f"{INCOMING}*"):
            trees.remove(path)

    def _fetch(self, *arguments: str) -> None:
        options = [each for each in arguments if each.startswith("--")]
        refspecs = [each for each in arguments if not each.startswith("--")]
        self._git.remote(
            f"--git-dir={self.folder}",
            "fetch",
            "--progress",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            *options,
            "--",
            self.url,
            *refspecs,
            what=f"fetching {self.url}",
        )

    def _combine_packs(self) -> None:
        """Combine the packs if there are many, and drop what only old revisions need."""
        if sum(1 for _ in (self.folder / "objects" / "pack").glob("*.pack")) <= MAX_PACKS:
            return
        refs = [path for path in (self.folder / _KEPT).iterdir() if path.is_file()]
        for old in sorted(refs, key=lambda path: path.stat().st_mtime)[:-MAX_KEPT_REVISIONS]:
            old.unlink()
        with contextlib.suppress(GitFailed):  # the next fetch tries again
            self.run("repack", "-a", "-d", "-q")
            self.run("prune", "--expire=now")
