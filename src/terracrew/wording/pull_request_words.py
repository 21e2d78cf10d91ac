"""The words for pull requests, the same on pages, terminals and forges."""

from collections.abc import Mapping

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
APPLIES = {
    "never": "Nothing applies it by itself",
    "on_merge": "The merge applies it",
    "on_command": "A command applies it",
    "on_command_then_merge": "A command applies it, and then it is merged",
}
FILTERS = {"open": "Open", "merged": "Merged", "closed": "Closed", "all": "All"}


def counted(modules: Mapping[str, int]) -> str:
    """Return how many modules are in each state: `2 changes, 1 plan failed`."""
    return ", ".join(f"{modules[state]:,} {word}" for state, word in STATES.items() if modules.get(state))
