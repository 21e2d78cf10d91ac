"""The words for pull requests, the same on pages, terminals and forges."""

from collections.abc import Mapping
from typing import Any

STATES = {
    "waiting": "waiting",
    "running": "planning",
    "changes": "changes",
    "no_changes": "no changes",
    "failed": "plan failed",
    "canceled": "canceled",
    "stale": "is planned again",
    "applying": "applying",
    "needs_approval": "waits for approval",
    "applied": "applied",
    "apply_failed": "apply failed",
}
COUNTED = {
    "changes": "with changes",
    "no_changes": "without changes",
    "failed": "failed",
    "waiting": "waiting",
    "running": "planning",
    "stale": "planned again",
    "canceled": "canceled",
    "needs_approval": "to approve",
    "applying": "applying",
    "applied": "applied",
    "apply_failed": "failed to apply",
}
APPLIES = {
    "never": "Nothing applies it by itself",
    "on_merge": "The merge applies it",
    "on_command": "A command applies it",
    "on_command_then_merge": "A command applies it, and then it is merged",
}
FILTERS = {"open": "Open", "merged": "Merged", "closed": "Closed", "all": "All"}


def pending(path: str, folder: str, reason: str) -> str:
    """Return what is said of a module that does not exist before the merge."""
    if reason:
        return f"not made when it is merged: {path or folder}: {reason}"
    return f"new module when it is merged: {path} of the folder {folder}"


def counted(modules: Mapping[Any, int]) -> str:
    """Return how many modules are in each state: `2 with changes, 1 failed`."""
    return ", ".join(f"{modules[state]:,} {word}" for state, word in COUNTED.items() if modules.get(state))
