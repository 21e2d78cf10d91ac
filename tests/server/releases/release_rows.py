"""Releases for tests, as the server stores them."""

from datetime import UTC, datetime

from terracrew import ids
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules
from terracrew.server.releases.model import Release, ReleaseArtifact

PUBLISHED_AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ADMIN = Principal("user", "usr_admin", "ada", "org_a", is_system_admin=True)
PUBLISHER = Principal("publisher", "rtk_1", "ci", None)
IMAGE_DIGEST = "1f" * 32


def wheel(version: str) -> ReleaseArtifact:
    name = f"terracrew-{version.replace('-', '')}-py3-none-any.whl"
    return ReleaseArtifact(
        name=name, kind="wheel", size_bytes=3, sha256="ab" * 32, signature="s", object_name="releases/upl_1"
    )


def runner_image(version: str) -> ReleaseArtifact:
    reference = f"registry.example/terracrew-runner:{version}@sha256:{IMAGE_DIGEST}"
    return ReleaseArtifact(
        name="terracrew-runner", kind="image", sha256=IMAGE_DIGEST, signature="s", reference=reference
    )


def new_release(
    version: str,
    *,
    is_breaking: bool = False,
    min_server_version: str = "",
    artifacts: list[ReleaseArtifact] | None = None,
) -> Release:
    return Release(
        id=ids.new("rel"),
        version=version,
        base_version=str(rules.parse(version)),
        notes=f"Notes of {version}",
        released_at=PUBLISHED_AT,
        is_breaking=is_breaking,
        breaking_words="stop the old one first" if is_breaking else "",
        min_server_version=min_server_version,
        published_by=ADMIN.id,
        published_by_name=ADMIN.name,
        published_at=PUBLISHED_AT,
        artifacts=artifacts or [],
    )
