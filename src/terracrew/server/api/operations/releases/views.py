"""Releases as the API shows them."""

import msgspec

from terracrew.api.releases import ReleaseNotes, ReleaseView
from terracrew.server.releases.model import Release


def view(release: Release, latest_id: str | None) -> ReleaseView:
    found = msgspec.convert(release, ReleaseView, from_attributes=True)
    return msgspec.structs.replace(found, is_latest=release.id == latest_id)


def notes_of(release: Release) -> ReleaseNotes:
    return msgspec.convert(release, ReleaseNotes, from_attributes=True)
