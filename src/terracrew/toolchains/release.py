"""Fetches a released engine: a zip that is used only if its SHA-256 is the expected one.

That is the one that the operator gave, else the pinned one of a default version, else the one in the publisher's signed list.
"""

import hashlib
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import urllib3

from terracrew.client import transport
from terracrew.errors import Invalid, NotFound, Unreachable
from terracrew.toolchains import cache, specs
from terracrew.toolchains.cache import InstallProgress, Report
from terracrew.toolchains.signatures import verification

_TIMEOUT = urllib3.Timeout(connect=3.0, read=30.0)  # a machine without internet access should not wait long
_RETRIES = urllib3.Retry(total=5, connect=0, read=0, redirect=5, status=0, raise_on_redirect=True)
_CHUNK_BYTES = 1 << 18
_SIGNED = "{sums} is signed by {publisher} (key {key}); {variable} requires a SHA-256 of your choice"
_MAX_SUMS_BYTES = 1 << 20
_MAX_SIGNATURE_BYTES = 1 << 16
_MAX_ARCHIVE_BYTES = 1 << 29
_MAX_BINARY_BYTES = 1 << 30


def base_url(spec: specs.Spec, release: specs.EngineRelease) -> str:
    """Return where releases are: a mirror named by TERRACREW_<ENGINE>_RELEASES, else their own site."""
    return os.environ.get(f"TERRACREW_{spec.name.upper()}_RELEASES", release.base).rstrip("/")


def fetch(spec: specs.Spec, version: str, workplace: Path, report: Report) -> list[Path]:
    """Put the released program into the workplace.

    Raises Unreachable or NotFound if no release can be downloaded, and Invalid if the release must not be used.
    """
    if spec.release is None:
        raise NotFound(f"{spec.title} has no release that we know how to verify")
    os_name, arch = cache.system()
    names = {"version": version, "os": os_name, "arch": arch}
    folder = f"{base_url(spec, spec.release)}/{spec.release.folder.format(**names)}"
    archive_name = spec.release.archive.format(**names)
    expected = specs.archive_of_operator(spec.name) or specs.ARCHIVES.get(archive_name, "")
    if not expected:
        expected = _signed_sum(spec, spec.release, folder, names, report)
    archive = workplace / "release.zip"
    actual = download(f"{folder}/{archive_name}", archive, report)
    if actual != expected:
        raise Invalid(
            f"{folder}/{archive_name} is not what was published: its SHA-256 is {actual}, not {expected}. Nothing was"
            f" installed. Try again, and if the problem persists, build it yourself: terracrew engine install {spec.name}"
            f" --version {version} --force-build"
        )
    return [_extract(archive, spec.programs[0].binary, workplace)]


def _signed_sum(
    spec: specs.Spec, release: specs.EngineRelease, folder: str, names: dict[str, str], report: Report
) -> str:
    """Return the SHA-256 of the archive from the list that the publisher signed."""
    url = f"{folder}/{release.sums.format(**names)}"
    sums = b"".join(chunk for chunk, _ in get(url, _MAX_SUMS_BYTES))
    expected = _listed_sum(sums, url, release.archive.format(**names))
    signature_url, signature = _signature(release, folder, names)
    try:
        key = verification.verify(release.publisher, sums, signature)
    except Invalid as error:
        raise Invalid(
            f"the signature {signature_url} of {url} is not valid: {error.message}. Nothing was installed. Try again, or require"
            f" a SHA-256 that you know by {specs.archive_variable(spec.name)}, or build it yourself: terracrew engine install"
            f" {spec.name} --version {names['version']} --force-build"
        ) from error
    title = verification.PUBLISHERS[release.publisher].title
    variable = specs.archive_variable(spec.name)
    report(InstallProgress("note", _SIGNED.format(sums=url, publisher=title, key=key, variable=variable)))
    return expected


def _signature(release: specs.EngineRelease, folder: str, names: dict[str, str]) -> tuple[str, bytes]:
    """Return the first signature that exists, with its address. Raises NotFound if there is none: the release is then not used."""
    missing: list[str] = []
    for name in release.signatures:
        url = f"{folder}/{name.format(**names)}"
        try:
            return url, b"".join(chunk for chunk, _ in get(url, _MAX_SIGNATURE_BYTES))
        except NotFound as error:
            missing.append(error.message)
    raise NotFound(f"the release is not signed ({'; '.join(missing)}), and no SHA-256 of it is pinned")


def _listed_sum(sums: bytes, url: str, name: str) -> str:
    for line in sums.decode(errors="replace").splitlines():
        digest, _, named = line.partition(" ")
        if named.strip().removeprefix("*") == name:
            return digest.lower()
    raise NotFound(f"{url} does not list {name}")


def download(url: str, path: Path, report: Report) -> str:
    digest, done = hashlib.sha256(), 0
    with path.open("wb") as file:
        for chunk, total in get(url, _MAX_ARCHIVE_BYTES):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            report(InstallProgress("download", url, done, total))
    return digest.hexdigest()


def get(url: str, most: int) -> Iterator[tuple[bytes, int | None]]:
    """Yield the chunks of a body, each with the length of the whole body if the server sends it."""
    done = 0
    try:
        with (
            transport.pool(url) as pool,
            pool.request("GET", url, timeout=_TIMEOUT, retries=_RETRIES, preload_content=False) as response,
        ):
            if response.status != 200:
                raise NotFound(f"{url} answers {response.status} {response.reason or ''}".rstrip())
            if url.startswith("https:") and (response.url or "").startswith("http:"):
                raise Invalid(f"{url} redirects to {response.url}, which is not encrypted")
            length = int(response.headers.get("Content-Length") or 0) or None
            for chunk in response.stream(_CHUNK_BYTES):
                done += len(chunk)
                if done > most:
                    raise Invalid(f"{url} is larger than {most >> 20} MiB, which is too large for a release")
                yield chunk, length
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unreachable(f"{url} cannot be fetched: {reason}") from error


def _extract(archive: Path, name: str, workplace: Path) -> Path:
    """Extract the program, but only if no entry of the archive points outside the archive."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                path = PurePosixPath(entry.filename.replace("\\", "/"))
                if path.is_absolute() or ".." in path.parts or stat.S_ISLNK(entry.external_attr >> 16):
                    raise Invalid(
                        f"the release contains {entry.filename!r}, which points outside: nothing was installed"
                    )
            entry = zipped.getinfo(name)
            if entry.file_size > _MAX_BINARY_BYTES:
                raise Invalid(
                    f"{name} in the release unpacks to {entry.file_size >> 20} MiB, which is too large for an engine"
                )
            with zipped.open(entry) as source, (workplace / name).open("wb") as target:
                # zipfile stops at the size that the archive's directory states, and checks the CRC there
                while chunk := source.read(_CHUNK_BYTES):
                    target.write(chunk)
    except KeyError as error:
        raise Invalid(f"the release does not contain {name}: nothing was installed") from error
    except zipfile.BadZipFile as error:
        raise Invalid(f"the release is not a sound zip file ({error}): nothing was installed") from error
    archive.unlink()
    return workplace / name
