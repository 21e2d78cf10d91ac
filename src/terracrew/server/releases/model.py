"""A release and its artifacts, as they are stored and as the API shows them."""

from datetime import datetime

import msgspec

from terracrew.releases.release_files import ArtifactKind


class ReleaseArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a release, or an image, of which only the reference is stored."""

    name: str
    kind: ArtifactKind
    size_bytes: int = 0
    """0 for an image."""
    sha256: str
    """The SHA-256 of the file, or the digest of the image, in hexadecimal digits."""
    signature: str
    """In the format of minisign: of the file, or of the file `<name>.image` that has the reference of the image."""
    reference: str = ""
    """Of an image: `registry/name:tag@sha256:…`. Empty for files."""
    object_name: str = ""
    """The object that has the content. Empty for images."""


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A published version of Terracrew."""

    id: str
    version: str
    base_version: str
    """The version without build metadata. No other release has the same."""
    notes: str = ""
    """Markdown."""
    released_at: datetime
    commit_id: str = ""
    """The commit that the release was built from."""
    link: str = ""
    is_breaking: bool = False
    breaking_words: str = ""
    """What to do before updating to a breaking release."""
    min_server_version: str = ""
    """The lowest version of a server with which this release works; empty if it works with any."""
    published_by: str
    published_by_name: str
    published_at: datetime
    withdrawn_at: datetime | None = None
    withdrawn_by: str = ""
    withdrawn_by_name: str = ""
    withdrawn_reason: str = ""
    artifacts: list[ReleaseArtifact] = []

    @property
    def is_withdrawn(self) -> bool:
        return self.withdrawn_at is not None

    def image(self, name: str) -> ReleaseArtifact | None:
        """Return the image of this name, for example `terracrew-runner`."""
        return next((each for each in self.artifacts if each.kind == "image" and each.name == name), None)
