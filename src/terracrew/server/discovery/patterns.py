"""Patterns of folders, as rules have them: `prod/*`, `**/network`, `.`. A pattern means the folder itself, and not what is below it."""

import re
from fnmatch import fnmatchcase

_CHARACTERS = re.compile(r"[^\x00-\x1f\x7f\\]+")


def problem(pattern: str) -> str:
    """Return what is wrong with a pattern, in words; empty if nothing is."""
    if pattern == ".":
        return ""
    if not _CHARACTERS.fullmatch(pattern):
        return "it is empty, or has control characters or a backslash in it"
    parts = pattern.split("/")
    if "" in parts:
        return "it begins or ends with a slash, or has two in a row: patterns are relative to the top of the repository"
    if "." in parts or ".." in parts:
        return "`.` and `..` mean nothing in it; `.` alone is the top of the repository"
    if any("**" in each and each != "**" for each in parts):
        return "`**` stands alone between slashes: `prod/**/network`"
    return ""


def matches(pattern: str, folder: str) -> bool:
    """Return whether a folder is one that a pattern means. The top of the repository is the folder ''."""
    if pattern == ".":
        return folder == ""
    names = folder.split("/") if folder else []
    # `reached[i]`: the parts of the pattern so far match the first `i` names.
    reached = [True] + [False] * len(names)
    for part in pattern.split("/"):
        if part == "**":
            first = reached.index(True) if True in reached else len(reached)
            reached = [at >= first for at in range(len(reached))]
        else:
            reached = [False] + [reached[at] and fnmatchcase(name, part) for at, name in enumerate(names)]
    return reached[-1]


def is_meant(folder: str, include: list[str], exclude: list[str]) -> bool:
    return any(matches(each, folder) for each in include) and not any(matches(each, folder) for each in exclude)
