"""What pages and terminals call kinds of forges, the states of hooks, and what became of deliveries."""

from datetime import datetime

KINDS: dict[str, str] = {"github": "GitHub", "gitlab": "GitLab", "gitea": "Gitea, Forgejo", "git": "Git"}
HOOKS: dict[str, str] = {
    "unknown": "not checked yet",
    "enabled": "enabled",
    "disabled": "disabled",
    "missing": "missing, polled",
    "none": "none, polled",
}


def condition(problem: str, contacted_at: datetime | None) -> str:
    """Return how a connection is, in one word or two."""
    if problem:
        return "failing"
    return "working" if contacted_at is not None else "not used yet"


def delivery(handled_at: datetime | None, problem: str) -> str:
    """Return what became of a delivery."""
    if handled_at is None:
        return f"waits: {problem}" if problem else "waits"
    return problem or "handled"
