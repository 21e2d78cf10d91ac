"""Takes the files of a release, one after another, and publishes the release once all of them are there and were checked.

A file that has arrived is an object, and the row of its upload names it. A release that is never published leaves such objects, which
retention removes. The rows of a release are written in one transaction, so nobody ever sees a part of one.
"""

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from terracrew import ids
from terracrew.api import fields
from terracrew.api.releases import AddedFile, NewArtifact, NewRelease
from terracrew.errors import Forbidden, Incomplete, Invalid, NotFound
from terracrew.protocol.transfers import UploadWanted
from terracrew.releases.minisign import PublicKey
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.releases import checks, rules, service, store
from terracrew.server.releases.model import Release, ReleaseArtifact
from terracrew.server.uploads import service as uploads
from terracrew.server.uploads.service import Body, Staging


@dataclass(frozen=True)
class PublishingContext:
    """What publishing needs of a running server."""

    staging: Staging
    folder: Path
    """Where a file is written while it arrives."""
    key: str
    """The setting `release_key`."""


async def add_file(context: PublishingContext, who: Principal, version: str, body: Body, staged: str) -> AddedFile:
    """Store a file for a release. `staged` is the upload that the body was staged as; empty if the request contained it."""
    target, staging = service.upload_target(version), context.staging
    if body.result is not None:
        found = await staging.db.read(lambda tx: uploads.finished(tx, who.id, staged, target))
        return AddedFile(found.id, found.sha256, found.size)
    await staging.db.read(
        lambda tx: uploads.require_below(
            tx, who.id, service.upload_target(""), checks.MAX_SENT_FILES, checks.MAX_SENT_BYTES
        )
    )
    with tempfile.NamedTemporaryFile(dir=context.folder, prefix="release-") as file:
        sha256, size = await body.write_to(file, "a file of the release")
        name = store.new_object()
        await staging.objects.put(name, Path(file.name))
    if staged:
        await body.finish(name)
        return AddedFile(staged, sha256, size)
    made = await uploads.record(staging, who.id, UploadWanted(target, sha256, size), name)
    return AddedFile(made.id, sha256, size)


async def publish(context: PublishingContext, who: Principal, wanted: NewRelease) -> Release:
    """Check everything about a release, and make it visible."""
    db = context.staging.db
    checks.check(wanted)
    await db.read(lambda tx: service.require_unpublished(tx, who, wanted.version))
    if who.kind == "publisher" and not wanted.artifacts:
        raise Forbidden(
            "a release token publishes only releases with signed artifacts: name them, or ask an administrator"
        )
    key = checks.require_key(context.key, wanted)
    artifacts = [await _checked(context, who, key, wanted.version, each) for each in wanted.artifacts] if key else []
    if sum(each.size_bytes for each in artifacts) > checks.MAX_RELEASE_BYTES:
        raise Invalid.in_field(
            "artifacts", f"the files of a release have at most {checks.MAX_RELEASE_BYTES:,} bytes together"
        )
    target = service.upload_target(wanted.version)

    async def work(tx: Tx) -> Release:
        for each in wanted.artifacts:  # again: an object whose upload is forgotten may be removed at any moment
            if each.upload:
                await uploads.hold(tx, await uploads.finished(tx, who.id, each.upload, target))
        return await service.publish(tx, who, _release(who, wanted, artifacts, tx.moment))

    return await db.write(work)


async def _checked(
    context: PublishingContext, who: Principal, key: PublicKey, version: str, wanted: NewArtifact
) -> ReleaseArtifact:
    if wanted.kind == "image":
        return fields.created(ReleaseArtifact, wanted, sha256=checks.check_image(key, version, wanted))
    staging, target = context.staging, service.upload_target(version)
    upload = await staging.db.read(lambda tx: uploads.finished(tx, who.id, wanted.upload, target))
    name = upload.result or ""
    try:
        size = await checks.check_file(key, version, wanted, staging.objects.stream(name))
    except NotFound:
        raise Incomplete(f"{wanted.name} has been removed meanwhile: send the file again") from None
    return fields.created(ReleaseArtifact, wanted, size_bytes=size, object_name=name)


def _release(who: Principal, wanted: NewRelease, artifacts: list[ReleaseArtifact], now: datetime) -> Release:
    return fields.created(
        Release,
        wanted,
        id=ids.new("rel"),
        base_version=str(rules.parse(wanted.version)),
        released_at=(wanted.released_at or now).astimezone(UTC),
        breaking_words=wanted.breaking_words.strip(),
        published_by=who.id,
        published_by_name=who.name,
        published_at=now,
        artifacts=artifacts,
    )
