"""Releases as the API shows them."""

from datetime import datetime

import msgspec

from terracrew.releases.release_files import ArtifactKind
from terracrew.server.releases.model import Release


class ArtifactView(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a release, or an image."""

    name: str
    kind: ArtifactKind
    size_bytes: int
    """0 for an image."""
    sha256: str
    """The SHA-256 of the file, or the digest of the image, in hexadecimal digits."""
    signature: str
    """In the format of minisign: of the file, or of the file `<name>.image` that has the reference of the image."""
    reference: str
    """Of an image: `registry/name:tag@sha256:…`. Empty for files."""


class ReleaseNotes(msgspec.Struct, frozen=True, kw_only=True):
    """What is written about one release."""

    version: str
    notes: str
    """Markdown."""
    released_at: datetime
    link: str
    is_breaking: bool
    breaking_words: str
    """What to do before updating to a breaking release."""
    withdrawn_at: datetime | None
    withdrawn_reason: str


class ReleaseView(ReleaseNotes, frozen=True, kw_only=True):
    """A published version of Terracrew."""

    id: str
    is_latest: bool = False
    """Whether the runners of this server should have it."""
    commit_id: str
    min_server_version: str
    """The lowest version of a server with which it works; empty for any."""
    published_by_name: str
    published_at: datetime
    withdrawn_by_name: str
    artifacts: list[ArtifactView]


def view(release: Release, latest_id: str | None) -> ReleaseView:
    found = msgspec.convert(release, ReleaseView, from_attributes=True)
    return msgspec.structs.replace(found, is_latest=release.id == latest_id)


def notes_of(release: Release) -> ReleaseNotes:
    return msgspec.convert(release, ReleaseNotes, from_attributes=True)
