"""Rows of releases, of their artifacts and of release tokens, of which only the hashes are stored."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from terracrew import ids
from terracrew.api.releases import ReleaseToken
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import delete_some
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.releases.model import Release, ReleaseArtifact
from terracrew.source_rules.version_ranges import parse_version

RELEASES = Table("releases", Release, without=("artifacts",))
ARTIFACTS = Table("release_artifacts", ReleaseArtifact)
_INSERT_ARTIFACT = ARTIFACTS.insert("release_id")


class ReleaseVersion(msgspec.Struct, frozen=True):
    """What decides which release is the latest one. Pages about runners read it often, so it has no notes and no files."""

    id: str
    version: str
    min_server_version: str
    is_breaking: bool
    withdrawn_at: datetime | None


VERSIONS = Table("releases", ReleaseVersion)


async def insert(tx: Tx, release: Release) -> None:
    """Insert a release with its artifacts. Raises Conflict if a release has the same version."""
    await tx.run(RELEASES.insert(), **to_params(release, *RELEASES.fields))
    for each in release.artifacts:
        await tx.run(_INSERT_ARTIFACT, release_id=release.id, **to_params(each))


async def find(tx: Tx, version: str) -> Release | None:
    """Return the release of this version, with its artifacts. Build metadata and a `v` before it make no difference."""
    parsed = parse_version(version)
    if parsed is None:
        return None
    row = await tx.one(f"SELECT {RELEASES.columns} FROM releases WHERE base_version = :version", version=str(parsed))
    return None if row is None else (await _with_artifacts(tx, [row_to(Release, row)]))[0]


async def get(tx: Tx, version: str) -> Release:
    found = await find(tx, version)
    if found is None:
        raise missing(version)
    return found


async def versions(tx: Tx) -> list[ReleaseVersion]:
    """Return the versions of all releases, in no order."""
    return await VERSIONS.all(tx, "FROM releases")


async def some(tx: Tx, release_ids: Sequence[str]) -> list[Release]:
    """Return these releases with their artifacts, in this order. One that does not exist is left out."""
    rows = await tx.each(
        f"SELECT {RELEASES.columns} FROM batch JOIN releases ON releases.id = batch.wanted",
        {"wanted": "text"},
        [(each,) for each in release_ids],
    )
    found = {each.id: each for each in await _with_artifacts(tx, rows_to(Release, rows))}
    return [found[each] for each in release_ids if each in found]


async def _with_artifacts(tx: Tx, releases: Sequence[Release]) -> list[Release]:
    rows = await tx.each(
        f"SELECT release_artifacts.release_id, {ARTIFACTS.columns}"
        " FROM batch JOIN release_artifacts ON release_artifacts.release_id = batch.wanted",
        {"wanted": "text"},
        [(each.id,) for each in releases],
    )
    artifacts: dict[str, list[ReleaseArtifact]] = {each.id: [] for each in releases}
    for row in sorted(rows, key=lambda row: row["name"]):
        artifacts[row["release_id"]].append(row_to(ReleaseArtifact, row))
    return [msgspec.structs.replace(each, artifacts=artifacts[each.id]) for each in releases]


async def withdraw(tx: Tx, release: Release, by: str, by_name: str, reason: str) -> bool:
    """Mark a release as withdrawn, unless it is already. Returns whether it was marked."""
    changed = await tx.run(
        "UPDATE releases SET withdrawn_at = :now, withdrawn_by = :by, withdrawn_by_name = :by_name,"
        " withdrawn_reason = :reason WHERE id = :id AND withdrawn_at IS NULL",
        id=release.id,
        now=tx.now,
        by=by,
        by_name=by_name,
        reason=reason,
    )
    return bool(changed)


async def named_objects(tx: Tx, names: Sequence[str]) -> set[str]:
    """Return those of these objects that a release has as a file."""
    rows = await tx.each(
        "SELECT batch.name FROM batch JOIN release_artifacts ON release_artifacts.object_name = batch.name",
        {"name": "text"},
        [(each,) for each in names],
    )
    return {row["name"] for row in rows}


def new_object() -> str:
    """Return a name for an object that has the content of a file."""
    return f"releases/{ids.new('upl')}"


def missing(version: str) -> NotFound:
    return NotFound(f"there is no release {version[:100]!r}: `terracrew release list` shows all of them")


TOKENS = Table("release_tokens", ReleaseToken)
_INSERT = TOKENS.insert("token_sha256")


async def insert_token(tx: Tx, token: ReleaseToken, token_sha256: str) -> None:
    await tx.run(_INSERT, token_sha256=token_sha256, **to_params(token))


async def count(tx: Tx) -> int:
    return await tx.value("SELECT count(*) AS tokens FROM release_tokens")


async def page(tx: Tx, after: str, limit: int) -> list[ReleaseToken]:
    return await TOKENS.all(
        tx, "FROM release_tokens WHERE id > :after ORDER BY id LIMIT :limit", after=after, limit=limit
    )


async def valid(tx: Tx, token_sha256: str) -> ReleaseToken | None:
    """Return the token with this hash, unless it has expired."""
    return await TOKENS.one(
        tx, "FROM release_tokens WHERE token_sha256 = :sha256 AND expires_at > :now", sha256=token_sha256, now=tx.now
    )


async def note_use(tx: Tx, token_id: str) -> None:
    await tx.run("UPDATE release_tokens SET last_used_at = :now WHERE id = :id", now=tx.now, id=token_id)


async def delete(tx: Tx, token_id: str) -> str:
    """Revoke a token, and return its name."""
    row = await tx.one("DELETE FROM release_tokens WHERE id = :id RETURNING name", id=token_id)
    if row is None:
        raise NotFound(f"there is no release token {token_id}")
    return row["name"]


async def prune(tx: Tx, before: float, limit: int) -> int:
    """Remove tokens that expired before this time. Until then, administrators can see that they have expired."""
    return await delete_some(tx, "release_tokens", "expires_at < :before", before, limit)
