"""Adds the result of a merge, which the server has made, to a mirror that has its base.

The server sends a pack with what the merge adds. Strangers have written its content, so nothing of it gets into the mirror, which other
attempts share, before git has checked every object, and the pack has nothing but parts of the commit that was promised.
"""

import os
import tempfile
from pathlib import Path

import msgspec

from terracrew.errors import Invalid, TooLarge
from terracrew.executor.sources.git.mirror import INCOMING, Mirror
from terracrew.executor.sources.git.program import GitFailed
from terracrew.executor.sources.git.revisions import Revision
from terracrew.protocol.spec import MergeResult
from terracrew.source_rules import archive

MAX_PACK_BYTES = 256 << 20
_MAX_OBJECTS = 2 * archive.MAX_ENTRIES
"""A source may have so many files, and each of them a folder."""
_HEADER_BYTES = 12
_MAGIC = b"PACK\0\0\0\2"


class MergePack(msgspec.Struct, frozen=True):
    result: MergeResult
    data: bytes

    def add(self, mirror: Mirror, commit: str) -> None:
        """Add the commit to a mirror, whose lock is held for a change. Raises Invalid if the pack is not what it should be."""
        self._check_header()
        base = Revision(self.result.base, f"commit {self.result.base[:12]}", self.result.base_ref)
        if not mirror.has(base.commit):
            mirror.fetch(base)
        with tempfile.TemporaryDirectory(prefix=INCOMING, dir=mirror.folder) as folder:
            try:
                pack = self._checked(mirror, commit, Path(folder))
            except GitFailed as error:
                if not mirror.is_intact:
                    raise
                raise _refused(f"git says: {error.message}") from error
            for suffix in (".pack", ".rev", ".idx"):  # git looks for the last one
                if (file := pack.with_suffix(suffix)).exists():
                    os.replace(file, mirror.folder / "objects" / "pack" / file.name)
        if not mirror.keep(commit):
            raise _refused(f"it has no commit {commit}")

    def _check_header(self) -> None:
        if len(self.data) > MAX_PACK_BYTES:
            raise TooLarge(f"the merge result has a pack of more than {MAX_PACK_BYTES >> 20} MiB")
        if self.data[: len(_MAGIC)] != _MAGIC:
            raise _refused("it is not a pack of git")
        if (count := int.from_bytes(self.data[len(_MAGIC) : _HEADER_BYTES])) > _MAX_OBJECTS:
            raise TooLarge(
                f"the merge result has a pack with {count:,} objects, and at most {_MAX_OBJECTS:,} are allowed"
            )

    def _checked(self, mirror: Mirror, commit: str, folder: Path) -> Path:
        """Write the pack into a folder of its own and check it there, together with the objects of the mirror. Returns its file."""
        (folder / "pack").mkdir()
        pack = folder / "pack" / f"pack-{commit}-{self.result.sha256[:12]}.pack"
        pack.write_bytes(self.data)
        # Git itself writes such modes no more, but keeps those of old trees.
        mirror.run("index-pack", "--strict=zeroPaddedFilemode=ignore", "--threads=1", str(pack))
        both = {
            "GIT_OBJECT_DIRECTORY": str(folder),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(mirror.folder / "objects"),
        }
        listing = "--format=%(objecttype) %(objectname)"
        listed = mirror.run("ls-tree", "-r", "-t", "-z", "--full-tree", listing, commit, env=both).split(b"\0")
        root = mirror.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}", env=both).strip()
        parts = {commit.encode(), root, *(each.split(b" ")[-1] for each in listed if not each.startswith(b"commit"))}
        inside = mirror.run("show-index", given=pack.with_suffix(".idx"))
        if any(line.split(b" ")[1] not in parts for line in inside.splitlines()):
            raise _refused(f"it has objects that do not belong to the commit {commit}")
        mirror.run("rev-list", "--objects", "--quiet", commit, env=both)  # it fails if anything is missing
        return pack


def _refused(why: str) -> Invalid:
    return Invalid(f"the merge result that the server sent is refused: {why}")
