"""The words and badges of releases and of what becomes of runners in a roll-out."""

from datetime import datetime

from terracrew.protocol.messages import Installation
from terracrew.server.dashboard import markdown
from terracrew.server.dashboard.words import Badge
from terracrew.server.releases.model import Release

LATEST = Badge("ok", "circle", "Latest")
WITHDRAWN = Badge("bad", "slash", "Withdrawn")
BREAKING = Badge("warn", "mark", "Breaking")
INSTALLATIONS = {
    "pip": "installed with pip",
    "pipx": "installed with pipx",
    "uv": "installed with uv",
    "systemd": "a service of systemd",
    "container": "in a container",
    "helm": "installed with Helm",
    "source": "from a checkout of the sources",
    "server": "part of the server",
}
LINKS = ("https://", "http://")


def release_badges(release: Release, latest: str) -> list[Badge]:
    """Return the badges of a release; `latest` is the version of the latest one."""
    if release.is_withdrawn:
        return [WITHDRAWN]
    found = [LATEST] if release.version == latest else []
    return [*found, BREAKING] if release.is_breaking else found


def in_short(release: Release) -> str:
    """Return one line about a release: why it was withdrawn, what it breaks, or the first sentence of its notes."""
    if release.is_withdrawn:
        return markdown.brief(release.withdrawn_reason)
    return markdown.brief(release.breaking_words) or markdown.brief(release.notes)


def installation(found: Installation) -> str:
    """Return how a runner was installed; empty if that is not known."""
    return INSTALLATIONS.get(found.kind, "")


def link(release: Release) -> str:
    """Return the address of a release elsewhere; empty if it has none that a browser may be sent to."""
    return release.link if release.link.lower().startswith(LINKS) else ""


def day(moment: datetime, now: datetime) -> str:
    """Return the day of a moment, with the year if it is another one."""
    return f"{moment.day} {moment:%b}" if moment.year == now.year else f"{moment.day} {moment:%b %Y}"


def as_markdown(release: Release) -> str:
    """Return the notes of a release as a section of a Markdown text."""
    head = f"## {release.version} ({release.released_at:%Y-%m-%d})"
    if release.is_withdrawn:
        return f"{head}\n\nWithdrawn: {release.withdrawn_reason}"
    before = f"**Before you update:** {release.breaking_words}\n\n" if release.is_breaking else ""
    return f"{head}\n\n{before}{release.notes}".rstrip()
