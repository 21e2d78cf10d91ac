"""Reads the address of a download as registries give it: `git::https://host/repo//folder?ref=v1`, or that of an archive."""

import re
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import msgspec

from terracrew.errors import Invalid
from terracrew.source_rules import git_urls

_FORCED = re.compile(r"([a-z0-9]+)::(.+)", re.DOTALL)
_ENDINGS = {".tar.gz": "tar.gz", ".tgz": "tar.gz", ".zip": "zip"}
_KNOWN = frozenset(("archive", "checksum", "depth", "ref"))

ArchiveKind = Literal["tar.gz", "zip"]


class Location(msgspec.Struct, frozen=True):
    kind: Literal["git", "tar.gz", "zip"]
    url: str
    folder: str = ""
    """The folder of the module in what is downloaded. `*` means the only folder in it."""
    ref: str = ""
    """The revision of a git repository; '' for its default branch."""
    checksum: str = ""
    """`sha256:…` of the archive, if the registry says it."""


def parse(text: str) -> Location:
    """Return what an address means. Raises Invalid for one that cannot be used here."""
    forced = _FORCED.fullmatch(text)
    getter, rest = (forced[1], forced[2]) if forced else ("", text)
    parts = urlsplit(rest)
    given = {name: texts[-1] for name, texts in parse_qs(parts.query, keep_blank_values=True).items()}
    path, _, folder = parts.path.partition("//")
    folder = unquote(folder).strip("/")
    if folder != "*" and any(part in ("", "..", ".") for part in folder.split("/")[: None if folder else 0]):
        raise Invalid(f"the registry gave {text[:300]!r}, whose folder {folder!r} leads out of it")
    url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    if getter == "git":
        return _repository(text, url, folder, given)
    if getter or parts.scheme != "https":
        raise Invalid(
            f"the registry gave {text[:300]!r}, which is neither an https address of an archive nor a git repository"
        )
    return _archive(text, url, folder, given, parts.query)


def _repository(text: str, url: str, folder: str, given: dict[str, str]) -> Location:
    if problem := git_urls.problem(url):
        raise Invalid(f"the registry gave a git repository that is refused: {problem}")
    if unknown := given.keys() - _KNOWN:
        raise Invalid(f"the registry gave {text[:300]!r} with {', '.join(sorted(unknown))}, which is not understood")
    return Location("git", url, folder, given.get("ref", ""))


def _archive(text: str, url: str, folder: str, given: dict[str, str], query: str) -> Location:
    wanted = given.get("archive", "")
    ending = next((kind for end, kind in _ENDINGS.items() if url.endswith(end)), "")
    kind = {"tgz": "tar.gz"}.get(wanted, wanted) or ending
    if kind not in ("tar.gz", "zip"):
        raise Invalid(f"the registry gave {text[:300]!r}, which is not an archive of a known kind: use tar.gz or zip")
    kept = "&".join(each for each in query.split("&") if each and each.split("=")[0] not in ("archive", "checksum"))
    whole = f"{url}?{kept}" if kept else url
    return Location(kind, whole, folder, checksum=given.get("checksum", ""))  # pyright: ignore[reportArgumentType]
