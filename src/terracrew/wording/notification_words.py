"""What pages, terminals and messages call events, kinds of channels, and what became of a message."""

from typing import Protocol

EVENTS: dict[str, str] = {
    "approval_wanted": "Approval wanted",
    "job_failed": "Job failed",
    "job_lost": "Job lost or in doubt",
    "drift": "Drift",
    "runner_offline": "Runner offline",
    "release": "New release",
}
EVENT_MEANINGS: dict[str, str] = {
    "approval_wanted": "A plan waits for a person.",
    "job_failed": "A job has failed.",
    "job_lost": "An attempt lost contact in the middle of a change, or its module is in doubt.",
    "drift": "A check has found something new, changed or gone, or has failed.",
    "runner_offline": "A self-hosted runner stays away, or is back.",
    "release": "A version of Terracrew was published or withdrawn.",
}
KINDS: dict[str, str] = {"webhook": "Webhook", "slack": "Slack", "teams": "Teams", "email": "E-mail"}


def place(path: str) -> str:
    """Return where something happened, in words."""
    return path or "the organization"


class _Channel(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def recipients(self) -> list[str]: ...
    @property
    def slack_channel(self) -> str: ...


def target(channel: _Channel) -> str:
    """Return where the messages of a channel go, as far as it is no secret."""
    if channel.kind == "email":
        return ", ".join(channel.recipients)
    return f"{channel.slack_channel} at {channel.target}" if channel.slack_channel else channel.target


def headline(path: str, title: str) -> str:
    """Return the first line of a message: where, and what."""
    return f"{path}: {title}" if path else title
