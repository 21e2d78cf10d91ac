"""Makes the result of merging a pull request, without a working tree, as one commit without parents and a pack of what is new in it.

The commit has the same id on every machine that merges the same two commits, so the hashes of git prove that a runner runs what was
merged here. A runner has the base commit already, or can fetch it, and needs only the pack.
"""

import re

import msgspec

from terracrew.errors import NotFound, TooLarge
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.program import GitProgramFailed

MAX_PACK_BYTES = 100 << 20
"""The largest pack, which travels like an uploaded archive."""
MAX_SHOWN_CONFLICTS = 10
_EMAIL = "terracrew@localhost"
_NAME = "Terracrew"
_NEWEST_SECONDS = 4_102_444_800
"""The first second of the year 2100. A commit can have any date, and git accepts not all of them."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_UNRELATED = "refusing to merge unrelated histories"
_ENTRY = re.compile(rb"(?:(?<=\0)|\A)[0-7]{6} (blob|tree) ([0-9a-f]{40})\t")


class MergedTree(msgspec.Struct, frozen=True):
    """The result of merging `head` into `base`."""

    base: str
    head: str
    tree: str
    """The merged tree; empty if there is none."""
    commit: str
    """A commit without parents that has this tree; empty if there is none."""
    is_conflict: bool
    conflicts: list[str] = []
    """The paths that git cannot merge."""
    problem: str = ""
    """Why there is no merge result, in words; empty if there is one."""
    is_unchanged: bool = False
    """Whether the merge changes no file of the base."""


async def merge(mirrors: RepositoryMirrors, key: str, base: str, head: str) -> MergedTree:
    """Merge two commits of a mirror. Raises NotFound if it has not both. Conflicts are no error, but part of the result."""
    await _check_present(mirrors, key, base, head)
    base_tree, head_tree, date = await _trees(mirrors, key, base, head)
    if await _is_ancestor(mirrors, key, base, head):
        tree = head_tree
    elif await _is_ancestor(mirrors, key, head, base):
        tree = base_tree
    else:
        found = await _merged(mirrors, key, base, head)
        if isinstance(found, MergedTree):
            return found
        tree = found
    commit = await _commit(mirrors, key, tree, date, base, head)
    return MergedTree(base, head, tree, commit, is_conflict=False, is_unchanged=tree == base_tree)


async def pack(mirrors: RepositoryMirrors, key: str, base: str, merged: str, max_bytes: int = MAX_PACK_BYTES) -> bytes:
    """Return a pack with the merged commit and those of its trees and files that the base commit does not have.

    No object in it is stored as a difference from one that is not in it. Raises TooLarge.
    """
    there = await _objects(mirrors, key, base)
    ids = [merged, *sorted(await _objects(mirrors, key, merged) - there)]
    try:
        packed = await mirrors.run(
            key,
            "pack-objects",
            "--stdout",
            "-q",
            "--threads=1",
            what="packing the result of a merge",
            given="".join(f"{each}\n" for each in ids).encode(),
            max_bytes=max_bytes,
        )
    except TooLarge:
        raise TooLarge(
            f"merging into {base[:12]} changes more than {max_bytes >> 20:,} MiB of files, compressed: split the pull request, or "
            "run its branch as the source of a job"
        ) from None
    return packed.output


async def fork_point(mirrors: RepositoryMirrors, key: str, head: str, merged_as: str, base: str) -> str:
    """Return the commit from which on a branch that was merged differs from the one that it was merged into; '' if nobody can say.

    `merged_as` is the commit that the merge has made, if it has made one: another parent than the branch, or a copy of its changes.
    `base` is an earlier commit of the target branch, if one is known.
    """
    before = base
    if merged_as and merged_as != head:
        parent = await mirrors.run(
            key, "rev-parse", "-q", "--verify", f"{merged_as}^1", what="reading a merge", codes=(0, 1)
        )
        before = parent.output.decode().strip() or base
    if not before or not await mirrors.has(key, [before]):
        return ""
    found = await mirrors.run(key, "merge-base", before, head, what="comparing histories", codes=(0, 1))
    return found.output.decode().strip()


async def committed_at(mirrors: RepositoryMirrors, key: str, commit: str) -> int:
    """Return when a commit was made, in seconds, as it says itself."""
    found = await mirrors.run(key, "show", "-s", "--format=%ct", commit, what="reading a commit")
    return int(found.output.strip() or b"0")


async def _check_present(mirrors: RepositoryMirrors, key: str, *commits: str) -> None:
    there = await mirrors.has(key, commits)
    if lacking := [each for each in commits if each not in there]:
        raise NotFound(
            f"this server's copy of the repository {key} has no commit {lacking[0][:100]}: it must be fetched first"
        )


async def _trees(mirrors: RepositoryMirrors, key: str, base: str, head: str) -> tuple[str, str, int]:
    """Return the trees of both commits, and the date of the head."""
    listed = await mirrors.run(key, "show", "-s", "--format=%T %ct", base, head, what="reading two commits")
    lines = [line.split(b" ") for line in listed.output.splitlines()]  # one line if both are the same commit
    (base_tree, _), (head_tree, date) = lines[0], lines[-1]
    seconds = int(date) if date.isdigit() else 0
    return base_tree.decode(), head_tree.decode(), min(max(seconds, 0), _NEWEST_SECONDS)


async def _is_ancestor(mirrors: RepositoryMirrors, key: str, one: str, other: str) -> bool:
    found = await mirrors.run(key, "merge-base", "--is-ancestor", one, other, what="comparing histories", codes=(0, 1))
    return found.code == 0


async def _merged(mirrors: RepositoryMirrors, key: str, base: str, head: str) -> MergedTree | str:
    """Return the merged tree, or the result that says why there is none."""
    try:
        found = await mirrors.run(
            key,
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
            base,
            head,
            what=f"merging {head[:12]} into {base[:12]}",
            codes=(0, 1),
        )
    except GitProgramFailed as error:
        if _UNRELATED not in error.message:
            raise
        words = (
            f"the commit {head[:12]} and the commit {base[:12]}, into which it is to be merged, have no common history"
        )
        return MergedTree(base, head, "", "", is_conflict=True, problem=words)
    tree, *paths = (each.decode(errors="replace") for each in found.output.split(b"\0") if each)
    if found.code == 0:
        return tree
    conflicts = sorted(set(paths))
    shown = ", ".join(conflicts[:MAX_SHOWN_CONFLICTS])
    more = len(conflicts) - MAX_SHOWN_CONFLICTS
    words = (
        f"git cannot merge {head[:12]} into {base[:12]}: both change {shown}{f' and {more} more' if more > 0 else ''}"
    )
    return MergedTree(base, head, "", "", is_conflict=True, conflicts=conflicts, problem=words)


async def _commit(mirrors: RepositoryMirrors, key: str, tree: str, date: int, base: str, head: str) -> str:
    """Write the commit. Everything in it follows from the two commits."""
    person = {
        f"GIT_{role}_{field}": text
        for role in ("AUTHOR", "COMMITTER")
        for field, text in (("NAME", _NAME), ("EMAIL", _EMAIL), ("DATE", f"@{date} +0000"))
    }
    made = await mirrors.run(
        key,
        "commit-tree",
        tree,
        what="writing the result of a merge",
        given=f"Merge {head} into {base}\n".encode(),
        environment=person,
    )
    return made.output.decode().strip()


async def _objects(mirrors: RepositoryMirrors, key: str, commit: str) -> set[str]:
    """Return the ids of all trees and files of a commit. A submodule is no object of the repository."""
    if not _COMMIT.fullmatch(commit):
        raise ValueError(f"{commit!r} is not the id of a commit")
    listed = await mirrors.run(
        key, "ls-tree", "-r", "-t", "-z", "--full-tree", commit, what="listing the files of a commit"
    )
    root = await mirrors.run(key, "rev-parse", "--verify", f"{commit}^{{tree}}", what="reading a commit")
    return {root.output.decode().strip(), *(each.decode() for _, each in _ENTRY.findall(listed.output))}
