"""What pages, terminals and messages call events, kinds of channels, and what became of a message."""

EVENTS: dict[str, str] = {
    "approval_wanted": "Approval wanted",
    "job_failed": "Job failed",
    "job_lost": "Job lost or in doubt",
    "drift": "Drift",
    "runner_offline": "Runner offline",
    "release": "New release",
}
KINDS: dict[str, str] = {"webhook": "Webhook", "slack": "Slack", "teams": "Teams", "email": "E-mail"}


def place(path: str) -> str:
    """Return where something happened, in words."""
    return path or "the organization"


def headline(path: str, title: str) -> str:
    """Return the first line of a message: where, and what."""
    return f"{path}: {title}" if path else title
