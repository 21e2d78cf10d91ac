"""Reads refs of a repository by git's protocol over HTTP, in version 2 and, of older servers, in version 0."""

import re

import msgspec

from terracrew.forges.contract import ForgeRefused

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
LENGTH_BYTES = 4


class Refs(msgspec.Struct, frozen=True):
    """The refs that were asked for, and the branch that HEAD stands for."""

    commits: dict[str, str]
    head: str = ""


def lines(body: bytes) -> list[bytes]:
    """Return the lines of an answer, without their lengths. Marks between them are left out."""
    found: list[bytes] = []
    place = 0
    while place < len(body):
        digits = body[place : place + LENGTH_BYTES]
        try:
            length = int(digits, 16) if len(digits) == LENGTH_BYTES else -1
        except ValueError:
            length = -1
        if length < 0 or place + length > len(body):
            raise ForgeRefused("this is not what a git server answers: check the address of the connection")
        if length > LENGTH_BYTES:
            found.append(body[place + LENGTH_BYTES : place + length].rstrip(b"\n"))
        place += max(length, LENGTH_BYTES)
    return found


def is_version_2(body: bytes) -> bool:
    return b"version 2" in lines(body)[:3]


def question(branch: str) -> bytes:
    """Return the request of version 2 for HEAD and one branch."""
    wanted = [b"command=ls-refs\n", None, b"symrefs\n", b"ref-prefix HEAD\n"]
    if branch:
        wanted.append(f"ref-prefix refs/heads/{branch}\n".encode())
    parts = [b"0001" if each is None else f"{len(each) + LENGTH_BYTES:04x}".encode() + each for each in wanted]
    return b"".join(parts) + b"0000"


def answer_2(body: bytes) -> Refs:
    """Read an answer of version 2: a commit, a name, and of HEAD its target."""
    commits: dict[str, str] = {}
    head = ""
    for each in lines(body):
        commit, _, rest = each.partition(b" ")
        name, *attributes = rest.split(b" ")
        if not _COMMIT.fullmatch(commit):
            continue  # HEAD of a repository without a commit is `unborn`
        commits[_text(name)] = commit.decode()
        for attribute in attributes:
            if name == b"HEAD" and attribute.startswith(b"symref-target:refs/heads/"):
                head = _text(attribute.removeprefix(b"symref-target:refs/heads/"))
    return Refs(commits, head)


def answer_0(body: bytes) -> Refs:
    """Read the answer of a server that does not know version 2: all refs, the first with the capabilities."""
    commits: dict[str, str] = {}
    head = ""
    for each in lines(body):
        line, _, capabilities = each.partition(b"\0")
        commit, _, name = line.partition(b" ")
        if _COMMIT.fullmatch(commit):
            commits[_text(name)] = commit.decode()
        for capability in capabilities.split(b" "):
            if capability.startswith(b"symref=HEAD:refs/heads/"):
                head = _text(capability.removeprefix(b"symref=HEAD:refs/heads/"))
    return Refs(commits, head)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")
