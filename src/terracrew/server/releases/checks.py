"""Checks a release that somebody wants to publish: its texts, and the hash and the signature of each of its files."""

import hashlib
import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from terracrew.api.releases import NewArtifact, NewRelease
from terracrew.errors import Conflict, Invalid
from terracrew.releases import minisign, release_files
from terracrew.releases.minisign import PublicKey, Verifier
from terracrew.server.releases import rules

MAX_NOTES_CHARACTERS = 100_000
MAX_BREAKING_CHARACTERS = 5_000
MAX_LINK_CHARACTERS = 500
MAX_ARTIFACTS = 100
MAX_ARTIFACT_BYTES = 256 * 2**20
MAX_RELEASE_BYTES = 2**30
MAX_SENT_FILES, MAX_SENT_BYTES = 1_000, 4 * MAX_RELEASE_BYTES
"""What one publisher can send within a day: a stolen release token must not fill the object store with files that it never publishes."""
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check(wanted: NewRelease) -> None:
    """Raise Invalid, with the name of the field, if the texts of a release are not what they should be."""
    rules.parse(wanted.version)
    if wanted.min_server_version:
        rules.parse(wanted.min_server_version, "min_server_version")
    _check_length("notes", wanted.notes, MAX_NOTES_CHARACTERS)
    _check_length("breaking_words", wanted.breaking_words, MAX_BREAKING_CHARACTERS)
    if wanted.is_breaking != bool(wanted.breaking_words.strip()):
        raise Invalid.in_field(
            "breaking_words", "a breaking release says what to do before an update, and no other one does"
        )
    if wanted.commit_id and not _COMMIT.fullmatch(wanted.commit_id):
        raise Invalid.in_field(
            "commit_id", f"{wanted.commit_id[:80]!r} is not a commit: it has 7 to 64 hexadecimal digits"
        )
    if wanted.link and not _is_link(wanted.link):
        raise Invalid.in_field(
            "link", f"{wanted.link[:80]!r} is not an address like https://example.com/releases/0.1.0"
        )
    if len(wanted.artifacts) > MAX_ARTIFACTS:
        raise Invalid.in_field(
            "artifacts", f"{len(wanted.artifacts)} are too many, a release has at most {MAX_ARTIFACTS}"
        )
    names = [each.name for each in wanted.artifacts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Invalid.in_field("artifacts", f"{twice[:80]!r} is named twice")
    for each in wanted.artifacts:
        _check_artifact(each)


def require_key(key: str, wanted: NewRelease) -> PublicKey | None:
    """Return the key that the signatures of a release are checked with; None for a release without artifacts."""
    if not wanted.artifacts:
        return None
    if not key:
        raise Conflict(
            "this server has no release_key in its settings, so it cannot check signatures: a release can be published only "
            "without artifacts"
        )
    return PublicKey.parse(key)


async def check_file(key: PublicKey, version: str, artifact: NewArtifact, pieces: AsyncIterator[bytes]) -> int:
    """Read a file and return its size. Raises Invalid if its hash or its signature is wrong."""
    verifier, digest, size = _verifier(key, artifact.signature, artifact.name), hashlib.sha256(), 0
    async for piece in pieces:
        digest.update(piece)
        verifier.update(piece)
        size += len(piece)
    if digest.hexdigest() != artifact.sha256:
        raise Invalid(f"{artifact.name}: its SHA-256 is {digest.hexdigest()}, not {artifact.sha256}")
    _finish(verifier, version, artifact.name)
    return size


def check_image(key: PublicKey, version: str, artifact: NewArtifact) -> str:
    """Return the digest of an image. Raises Invalid if the signature does not cover its reference."""
    filename = f"{artifact.name}{release_files.IMAGE_SUFFIX}"
    verifier = _verifier(key, artifact.signature, filename)
    verifier.update(release_files.image_content(artifact.reference))
    _finish(verifier, version, filename)
    return release_files.image_digest(artifact.reference)


def _verifier(key: PublicKey, signature: str, filename: str) -> Verifier:
    try:
        return Verifier(key, signature, is_hash_required=True)
    except Invalid as error:
        raise Invalid(f"{filename}: {error.message}") from None


def _finish(verifier: Verifier, version: str, filename: str) -> None:
    try:
        minisign.check_release_comment(verifier.finish(), version, filename)
    except Invalid as error:
        raise Invalid(f"{filename}: {error.message}") from None


def _check_artifact(artifact: NewArtifact) -> None:
    try:
        release_files.checked_name(artifact.name)
        if artifact.kind == "image":
            release_files.image_digest(artifact.reference)
    except Invalid as error:
        raise Invalid.in_field("artifacts", error.message) from None
    is_image = artifact.kind == "image"
    if is_image and (artifact.upload or artifact.sha256):
        raise Invalid.in_field(
            "artifacts", f"the image {artifact.name} has a reference, and neither a file nor its hash"
        )
    if not is_image and (artifact.reference or not artifact.upload or not _SHA256.fullmatch(artifact.sha256)):
        raise Invalid.in_field("artifacts", f"the file {artifact.name} has an upload and its SHA-256, and no reference")


def _check_length(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise Invalid(f"{field}: {len(text):,} characters are too many, at most {limit:,} are kept")


def _is_link(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_plain = text.isascii() and text.isprintable() and not set(' "<>\\^`{|}') & set(text)
    return is_plain and len(text) <= MAX_LINK_CHARACTERS and parts.scheme in ("http", "https") and bool(parts.hostname)
