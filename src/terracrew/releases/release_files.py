"""The files of a release by their names: what kind each one is, and what the signature of an image covers.

An image is in a registry, and a release has only its reference. The reference is signed as a small file of its own,
`terracrew-runner.image`, so that whoever can publish cannot name an image that the key's owner has not seen.
"""

import re
from typing import Literal

from terracrew.errors import Invalid

ArtifactKind = Literal["wheel", "sdist", "image", "sbom", "checksums"]
IMAGE_SUFFIX = ".image"
SIGNATURE_SUFFIX = ".minisig"
MAX_NAME_CHARACTERS = 200
MAX_REFERENCE_CHARACTERS = 500
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_REFERENCE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?@sha256:(?P<digest>[0-9a-f]{64})"
)
_KINDS: tuple[tuple[str, ArtifactKind], ...] = (
    (".whl", "wheel"),
    (".tar.gz", "sdist"),
    (".cdx.json", "sbom"),
    (".spdx.json", "sbom"),
    (IMAGE_SUFFIX, "image"),
    ("SHA256SUMS", "checksums"),
)


def checked_name(name: str) -> str:
    """Return the name of an artifact. Raises Invalid if it could be anything but the name of a file in one folder."""
    if len(name) > MAX_NAME_CHARACTERS or not _NAME.fullmatch(name):
        raise Invalid(
            f"{name[:MAX_NAME_CHARACTERS]!r} cannot name an artifact: it has 1 to {MAX_NAME_CHARACTERS} letters, digits and "
            "the characters . _ + -, and begins with a letter or a digit"
        )
    return name


def kind_of(filename: str) -> ArtifactKind:
    """Return what a file of a release is. Raises Invalid if its name does not say so."""
    for ending, kind in _KINDS:
        if filename.endswith(ending):
            return kind
    endings = ", ".join(ending for ending, _ in _KINDS)
    raise Invalid(f"{filename!r} is not a file of a release: its name should end with one of {endings}")


def image_digest(reference: str) -> str:
    """Return the digest in the reference of an image. Raises Invalid for a reference without one, whose content may change."""
    found = _REFERENCE.fullmatch(reference) if len(reference) <= MAX_REFERENCE_CHARACTERS else None
    if found is None:
        raise Invalid(
            f"{reference[:MAX_REFERENCE_CHARACTERS]!r} is not the reference of an image with its digest: it looks like "
            "registry.example.com/terracrew-runner:0.1.0@sha256:…"
        )
    return found["digest"]


def image_content(reference: str) -> bytes:
    """Return the content of the file that has the reference of an image, which is what the image's signature covers."""
    return f"{reference}\n".encode()


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"##? +(.*)")


def section_of(text: str, version: str) -> str | None:
    """Return the Markdown below the heading of a version, without the heading; None if there is no such heading.

    The heading is `## 0.1.0-rc.1`, and may have more behind it, such as a date. Lines in blocks of code are no headings.
    """
    found: list[str] | None = None
    fence = ""
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        heading = None if fence or mark else _HEADING.fullmatch(line)
        if heading is not None and found is not None:
            break
        if heading is not None and _first_word(heading[1]) == version:
            found = []
        elif found is not None:
            found.append(line)
    return None if found is None else "\n".join(found).strip()


def _first_word(heading: str) -> str:
    words = heading.split(maxsplit=1)
    return words[0].strip("[]") if words else ""
