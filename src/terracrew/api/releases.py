"""Releases of Terracrew: their files, notes, and the tokens with which they are published."""

from datetime import datetime
from typing import Annotated

import msgspec

from terracrew.api.access import Days
from terracrew.api.fields import Field
from terracrew.releases.release_files import ArtifactKind


class Withdrawal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str
    """Why, for people whose runners have this version."""


class ReleaseKey(msgspec.Struct, frozen=True):
    key: str
    """The line that `minisign -P` takes. Empty if the server has no key, and so no artifacts."""


class AddedFile(msgspec.Struct, frozen=True):
    """A file that has arrived, for a release that is not published yet."""

    upload: str
    """The id by which the release names it."""
    sha256: str
    size_bytes: int


class NewReleaseToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    expires_in_days: Annotated[Days | None, Field(metavar="N")] = None
    """After how many days it ends; null: after 90 days, or with the token that it is made with before."""


class CreatedReleaseToken(msgspec.Struct, frozen=True):
    id: str
    name: str
    expires_at: datetime
    token: str
    """Shown this once."""


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


class NewArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a release to publish, or an image."""

    name: str
    """The name of the file; for an image, its role: `terracrew-runner`, `terracrew-executor` or `terracrew-server`."""
    kind: ArtifactKind
    sha256: str = ""
    """Of a file, in hexadecimal digits. It is compared with what was uploaded."""
    signature: str
    """In the format of minisign, with the trusted comment `terracrew VERSION NAME`, made with the key that the server knows.

    For an image it covers the file `NAME.image`, which has the reference and a newline, and the comment names that file."""
    upload: str = ""
    """Of a file: the id that `POST /releases/{release}/files` answered."""
    reference: str = ""
    """Of an image: its registry, name and tag, with its digest: `registry/terracrew-runner:0.1.0@sha256:…`."""


class NewRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A release to publish."""

    version: str
    """A semantic version with three numbers: `0.1.0`, `0.1.0-rc.1`."""
    notes: str = ""
    """Markdown."""
    released_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """When it was released; null for now."""
    commit_id: Annotated[str, Field(option="--commit", metavar="ID")] = ""
    """The commit that it was built from."""
    link: Annotated[str, Field(metavar="URL")] = ""
    """Where more is written about it, `https://…`."""
    is_breaking: bool = False
    """Whether something must be done before an update. Such a release is never rolled out without a person's consent."""
    breaking_words: str = ""
    """What to do before updating to a breaking release."""
    min_server_version: Annotated[str, Field(metavar="VERSION")] = ""
    """The lowest version of a server with which it works; empty for any."""
    artifacts: list[NewArtifact] = []


class ReleaseToken(msgspec.Struct, frozen=True):
    """A token with which releases can be published, and nothing else can be done."""

    id: str
    name: str
    created_by: str
    created_by_name: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None = None
