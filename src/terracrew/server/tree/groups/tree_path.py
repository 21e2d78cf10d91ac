"""Paths of the tree, such as `a/b/c`. The empty path is the organization itself."""

import re
from collections.abc import Iterable, Set

from terracrew.errors import Invalid
from terracrew.protocol import limits

MAX_LEVELS = limits.MAX_PATH_LEVELS
_NAME = re.compile(limits.PATH_NAME + r"\Z")


def parse(text: str) -> str:
    """Return the path if it is valid, or raise an error that says what is wrong with it."""
    if text == "":
        return text
    if len(text) > MAX_LEVELS * 64:
        raise Invalid(f"a path of {len(text)} characters is too long: at most {MAX_LEVELS} names of 63 characters")
    names = text.split("/")
    if len(names) > MAX_LEVELS:
        raise Invalid(f"{text!r} is {len(names)} levels deep: at most {MAX_LEVELS} are allowed")
    for name in names:
        if not _NAME.match(name):
            raise Invalid(f"{text!r} is not a valid path: {_reason(name)}", path=text)
    return text


def name(text: str) -> str:
    """Return the name if it is valid, or raise an error that says what is wrong with it."""
    if not _NAME.match(text):
        raise Invalid(f"{text!r} is not a valid name: {_reason(text)}", name=text)
    return text


def join(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent else name


def split(path: str) -> tuple[str, str]:
    """Return the path of the group that contains this place, and the place's own name."""
    parent, _, name = path.rpartition("/")
    return parent, name


def is_within(path: str, place: str) -> bool:
    """Return whether `path` is `place`, or below it."""
    return place in ("", path) or path.startswith(place + "/")


def is_within_any(path: str, places: Iterable[str]) -> bool:
    """Return whether `path` is one of these places, or below one."""
    return any(is_within(path, place) for place in places)


def topmost(paths: Set[str]) -> list[str]:
    """Return those of these paths that are not below another one of them, in their order."""
    return sorted(path for path in paths if not is_within_any(path, paths - {path}))


def _reason(name: str) -> str:
    if name == "":
        return "a name between its slashes is missing"
    if name in (".", ".."):
        return f"{name!r} has no meaning here: paths start at the organization"
    if len(name) > 63:
        return f"a name of {len(name)} characters is too long: at most 63 are allowed"
    if name.startswith("-"):
        return f"{name!r} starts with a hyphen"
    return "use lowercase letters, digits and hyphens"
