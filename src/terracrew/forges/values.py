"""Takes texts of a forge over: bounded, without characters that cannot be stored, and only what may be part of a ref or an address.

A forge is another party, also if it is the operator's own: what it answers is never more than text.
"""

import re
from urllib.parse import quote

from terracrew.forges.contract import ForgeRefused
from terracrew.source_rules import git

MAX_TEXT_CHARACTERS = 500
MAX_NAME_CHARACTERS = 255
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NAME = re.compile(r"[A-Za-z0-9_.~][A-Za-z0-9_.~-]*(?:/[A-Za-z0-9_.~][A-Za-z0-9_.~-]*)*")
_ETAG = re.compile(r'(?:W/)?"[!#-~]{1,200}"')
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")
_NOT_STORABLE = re.compile(r"[\x00\ud800-\udfff]")


def line(text: str | None, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return a text of one line, such as a title."""
    return _UNPRINTABLE.sub(" ", text or "")[:limit].strip()


def body(text: str | None, limit: int = 100_000) -> str:
    """Return a text of several lines, such as a comment."""
    return _NOT_STORABLE.sub("", text or "")[:limit]


def identity(number: int | str | None) -> str:
    """Return the forge's own id of something, as text."""
    return line(str(number), 100) if number is not None else ""


def commit(text: str | None) -> str:
    """Return the id of a commit. Raises ForgeRefused if it is none: it becomes an argument of git."""
    if text is None or not _COMMIT.fullmatch(text):
        raise ForgeRefused(f"the forge has answered {line(text, 60)!r} where the id of a commit should be")
    return text


def commit_or_nothing(text: str | None) -> str:
    return text if text is not None and _COMMIT.fullmatch(text) else ""


def branch(text: str | None) -> str:
    """Return the name of a branch. Raises ForgeRefused if git would not accept it."""
    if not text or git.ref_problem(text):
        raise ForgeRefused(f"the forge has answered {line(text, 60)!r} where the name of a branch should be")
    return text


def head_branch(text: str | None) -> str:
    """Return the name of the branch of a pull request, for people; empty if it is gone. What is fetched is the ref of its number."""
    return line(text, MAX_NAME_CHARACTERS)


def name(text: str) -> str:
    """Return the name of a repository, which becomes a part of addresses. Raises ForgeRefused if it cannot be one."""
    if problem := name_problem(text):
        raise ForgeRefused(
            f"the forge has answered {line(text, 60)!r} where the name of a repository should be: {problem}"
        )
    return text


def name_problem(text: str) -> str:
    """Return why this cannot be the name of a repository; '' if it can."""
    if len(text) > MAX_NAME_CHARACTERS:
        return f"it has more than {MAX_NAME_CHARACTERS} characters"
    if not _NAME.fullmatch(text) or any(set(part) == {"."} for part in text.split("/")):
        return "a name is like acme/network, of letters, digits, hyphens, dots and underscores"
    return ""


def clone_url(base_url: str, repository: str) -> str:
    """Return the address that git fetches a repository from.

    It is made here. One that the forge tells could be on another host, which git would then send the credential to.
    """
    return f"{base_url}/{name(repository)}.git"


def link(text: str | None, base_url: str) -> str:
    """Return the address of a page of the forge; the forge itself, if it is one of somebody else."""
    found = line(text, 2_000)
    return found if found.startswith(f"{base_url}/") else base_url


def etag(text: str | None) -> str:
    """Return a tag that can be sent back; empty if it is none."""
    return text if text is not None and _ETAG.fullmatch(text) else ""


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def path(text: str) -> str:
    """Return the name of a repository or of a branch as segments of a path."""
    return quote(text, safe="/")
