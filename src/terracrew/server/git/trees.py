"""Reads the files of a commit from a mirror: their list, their content, and what differs between two commits."""

import re
from collections.abc import Iterable

import msgspec

from terracrew.errors import Damaged, TooLarge
from terracrew.server.git.mirrors import RepositoryMirrors

MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 32 << 20
MAX_ENTRIES = 200_000
_ID = re.compile(r"[0-9a-f]{40}")
_LINE = re.compile(rb"(?:(?<=\0)|\A)([0-7]{6}) [a-z]+ ([0-9a-f]{40})\t([^\0]*)\0")
_SUBMODULE = "160000"


class TreeEntry(msgspec.Struct, frozen=True):
    path: str
    """With bytes that are not UTF-8 as lone surrogates, as `os.fsdecode` gives them."""
    mode: str
    """`100644` a file, `100755` a program, `120000` a link, `160000` a submodule."""
    object_id: str

    @property
    def is_file(self) -> bool:
        return self.mode in ("100644", "100755")


async def entries(mirrors: RepositoryMirrors, key: str, commit: str) -> list[TreeEntry]:
    """Return the files, links and submodules of a commit or a tree, in the order of git."""
    _check_id(commit)
    listed = await mirrors.run(key, "ls-tree", "-r", "-z", "--full-tree", commit, what="listing the files of a commit")
    if listed.output.count(b"\0") > MAX_ENTRIES:
        raise TooLarge(f"the commit {commit[:12]} has more than {MAX_ENTRIES:,} files")
    return [
        TreeEntry(path.decode(errors="surrogateescape"), mode.decode(), object_id.decode())
        for mode, object_id, path in _LINE.findall(listed.output)
    ]


async def changed(mirrors: RepositoryMirrors, key: str, before: str, after: str) -> list[str]:
    """Return the paths that differ between two commits or trees. A file that was renamed is there with both of its names."""
    _check_id(before)
    _check_id(after)
    listed = await mirrors.run(
        key, "diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, what="comparing two commits"
    )
    return [each.decode(errors="surrogateescape") for each in listed.output.split(b"\0") if each]


async def files(
    mirrors: RepositoryMirrors,
    key: str,
    wanted: Iterable[TreeEntry],
    max_file_bytes: int = MAX_FILE_BYTES,
    max_bytes: int = MAX_BYTES,
) -> dict[str, bytes]:
    """Return the content of entries by their paths; that of a link is where it leads to. Submodules are left out.

    Raises TooLarge, before anything large is read, if one of them or all together are too large.
    """
    read = [each for each in wanted if each.mode != _SUBMODULE]
    if not read:
        return {}
    ids = list(dict.fromkeys(each.object_id for each in read))
    given = "".join(f"{each}\n" for each in ids).encode()
    checked = await mirrors.run(key, "cat-file", "--batch-check", what="reading the sizes of files", given=given)
    sizes = dict(_size(line) for line in checked.output.splitlines())
    for each in read:
        if sizes.get(each.object_id, 0) > max_file_bytes:
            raise TooLarge(
                f"the file {each.path!r} has {sizes[each.object_id]:,} bytes, and at most {max_file_bytes:,} are read"
            )
    if sum(sizes.values()) > max_bytes:
        raise TooLarge(f"{len(read):,} files have {sum(sizes.values()):,} bytes, and at most {max_bytes:,} are read")
    room = max_bytes + 200 * len(ids)
    found = await mirrors.run(key, "cat-file", "--batch", what="reading files", given=given, max_bytes=room)
    contents = _contents(found.output, sizes)
    return {each.path: contents[each.object_id] for each in read}


def _size(line: bytes) -> tuple[str, int]:
    object_id, kind, *size = line.decode().split(" ")
    if kind != "blob":
        raise Damaged(f"the object {object_id} of a repository is not a file, but {kind}")
    return object_id, int(size[0])


def _contents(printed: bytes, sizes: dict[str, int]) -> dict[str, bytes]:
    """Take apart what `cat-file --batch` printed: for each object a line, its content, and the end of a line."""
    found: dict[str, bytes] = {}
    at = 0
    for object_id, size in sizes.items():
        start = printed.index(b"\n", at) + 1
        found[object_id] = printed[start : start + size]
        at = start + size + 1
    return found


def _check_id(text: str) -> None:
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not the id of a commit or a tree")
