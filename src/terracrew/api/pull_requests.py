"""Pull requests: what is known of them, the plans of the modules that they touch, and how they are applied."""

from typing import Literal

PullRequestState = Literal["open", "merged", "closed"]
PlanState = Literal[
    "waiting",
    "running",
    "changes",
    "no_changes",
    "failed",
    "canceled",
    "stale",
    "applying",
    "needs_approval",
    "applied",
    "apply_failed",
]
"""`waiting`: its job is to be created, or is queued. `stale`: its plan no longer says what an apply would do, and is made again."""
PullRequestApply = Literal["never", "on_merge", "on_command", "on_command_then_merge"]
