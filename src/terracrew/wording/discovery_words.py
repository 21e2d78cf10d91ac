"""The words for discovery rules and the folders that they find, the same on pages and terminals."""

from collections.abc import Mapping
from typing import Any

STATES = {
    "new": "new",
    "made": "has its module",
    "gone": "folder is gone",
    "kept": "has a module",
    "deleted": "module was deleted",
    "conflict": "conflict",
    "invalid": "not possible",
}
COUNTED = {
    "new": "new",
    "made": "made",
    "gone": "gone",
    "kept": "with another module",
    "deleted": "deleted",
    "conflict": "in conflict",
    "invalid": "not possible",
}
TOP = "(top)"
"""How the top folder of a repository is shown."""


def counted(folders: Mapping[Any, int]) -> str:
    """Return how many folders are in each state: `12 made, 1 in conflict`."""
    return ", ".join(f"{folders[state]:,} {word}" for state, word in COUNTED.items() if folders.get(state))


def condition(problem: str, counts: Mapping[Any, int], *, is_enabled: bool, is_looked_at: bool) -> str:
    """Return in one word how a rule is."""
    if not is_enabled:
        return "not enabled"
    if problem:
        return "does not work"
    if not is_looked_at:
        return "not looked yet"
    return "needs attention" if counts.get("conflict") or counts.get("invalid") else "works"


def gone(commit: str) -> str:
    """Return what is said of a module whose folder is gone."""
    return f"its folder is gone since commit {commit[:12]}: nothing is planned or destroyed because of that"
