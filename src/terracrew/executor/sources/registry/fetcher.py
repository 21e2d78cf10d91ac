"""A source that is a module of a registry: its version is chosen once for a job, and downloaded from where the registry says."""

import asyncio
import hashlib
import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import msgspec

from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.executor.sources.contract import Deadline, FetchContext, FetchLimits
from terracrew.executor.sources.git import remote_errors, revisions, tree
from terracrew.executor.sources.git.checkout import DIGEST_PREFIX, Checkout
from terracrew.executor.sources.git.program import GitFailed
from terracrew.executor.sources.registry import zip_files
from terracrew.executor.sources.registry.modules import RegistryModule
from terracrew.executor.sources.registry.web import RegistryHttp, shown
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import FOLDER_MARK, RegistrySource
from terracrew.source_rules import archive, git
from terracrew.source_rules import registry as rules

MAX_DOWNLOAD_BYTES = 256 << 20
_VERSION = "version "


_FORCED = re.compile(r"([a-z0-9]+)::(.+)", re.DOTALL)
_ENDINGS = {".tar.gz": "tar.gz", ".tgz": "tar.gz", ".zip": "zip"}
_KNOWN = frozenset(("archive", "checksum", "depth", "ref"))


class Location(msgspec.Struct, frozen=True):
    kind: Literal["git", "tar.gz", "zip"]
    url: str
    folder: str = ""
    """The folder of the module in what is downloaded. `*` means the only folder in it."""
    ref: str = ""
    """The revision of a git repository; '' for its default branch."""
    checksum: str = ""
    """`sha256:…` of the archive, if the registry says it."""


class RegistryFetcher:
    def __init__(self, limits: FetchLimits | None = None) -> None:
        self._limits = limits or FetchLimits()

    async def fetch(self, source: RegistrySource, workspace: Path, context: FetchContext) -> SourceResolved:
        address = rules.parse(source)  # the server has done this, too, but a runner does not rely on it
        say = partial(asyncio.get_running_loop().call_soon_threadsafe, context.say)
        fetch = _Fetch(source, address, workspace, context, Deadline(self._limits, context.control), say)
        return await asyncio.to_thread(fetch.run)


class _Fetch:
    """The fetch of one module, in a thread of its own."""

    def __init__(
        self,
        source: RegistrySource,
        address: rules.Address,
        workspace: Path,
        context: FetchContext,
        deadline: Deadline,
        say: Callable[[str], object],
    ) -> None:
        self._source, self._address, self._workspace, self._context = source, address, workspace, context
        self._deadline, self._say = deadline, say
        self._web = RegistryHttp(context.environment, context.variables, deadline, context.own_tokens)

    def run(self) -> SourceResolved:
        registry = RegistryModule(self._web, self._address)
        version = self._pinned() or registry.newest(self._source.version)
        location = parse(registry.location(version))
        commit = ""
        if location.kind == "git":
            commit = self._check_out(location)
            digest = f"{DIGEST_PREFIX}{commit}"
        else:
            digest = f"sha256:{self._unpack(location)}"
        folder = _only_folder(self._workspace) if location.folder == "*" else location.folder
        return SourceResolved(
            digest=f"{digest}{FOLDER_MARK}{folder}" if folder else digest,
            description=f"{self._address.host}/{self._address.path}, version {version}"
            + (f", commit {commit[:12]}" if commit else ""),
            commit=commit,
            revision=f"{_VERSION}{version}",
        )

    def _pinned(self) -> str:
        """Return the version that an earlier attempt of the job has used; '' for the first attempt."""
        return self._context.revision.removeprefix(_VERSION) if self._context.digest else ""

    def _check_out(self, location: Location) -> str:
        checkout = Checkout(self._workspace, self._context, self._deadline, self._say, submodules=True)
        try:
            found = checkout.pinned() or revisions.of_any_kind(checkout.git, location.url, location.ref)
        except GitFailed as error:
            raise remote_errors.explained(error, location.url, has_credential=False) from error
        checkout.write(location.url, found)
        return found.commit

    def _unpack(self, location: Location) -> str:
        self._say(f"Downloading {shown(location.url)}")
        data = self._web.get(location.url, most=MAX_DOWNLOAD_BYTES, accept="*/*").body
        _check_checksum(data, location)
        digest = hashlib.sha256(data).hexdigest()
        pinned = self._context.digest.partition(FOLDER_MARK)[0]
        if pinned and pinned != f"sha256:{digest}":
            raise Conflict(
                f"an earlier attempt of this job has used another archive of this version: {pinned} and not sha256:{digest}. "
                "Run a new job to use what is there now"
            )
        try:
            if location.kind == "zip":
                unpack = partial(zip_files.extract, data, self._workspace)
            else:
                unpack = partial(archive.extract, io.BytesIO(data), self._workspace)
            self._context.confinement.within(unpack, self._workspace)
        except TerracrewError as error:
            raise type(error)(f"{shown(location.url)}: {error.message}") from error
        tree.remove_left_out(self._workspace)
        return digest


def _check_checksum(data: bytes, location: Location) -> None:
    if not location.checksum:
        return
    kind, _, wanted = location.checksum.rpartition(":")
    if kind not in ("sha256", "sha512"):
        raise Invalid(
            f"{shown(location.url)} has the checksum {location.checksum[:200]!r}: only sha256 and sha512 are understood"
        )
    if hashlib.new(kind, data).hexdigest() != wanted.lower():
        raise Invalid(f"{shown(location.url)} is not what the registry has announced: its {kind} is not {wanted[:128]}")


def _only_folder(workspace: Path) -> str:
    folders = [path.name for path in workspace.iterdir() if path.is_dir() and not path.is_symlink()]
    if len(folders) != 1:
        raise Invalid(f"the archive should have one folder at its top, and has {len(folders)}")
    return folders[0]


SOURCE = RegistryFetcher()


def parse(text: str) -> Location:
    """Return what an address means. Raises Invalid for one that cannot be used here."""
    forced = _FORCED.fullmatch(text)
    getter, rest = (forced[1], forced[2]) if forced else ("", text)
    parts = urlsplit(rest)
    given = {name: texts[-1] for name, texts in parse_qs(parts.query, keep_blank_values=True).items()}
    path, _, folder = parts.path.partition("//")
    folder = unquote(folder).strip("/")
    if folder != "*" and any(part in ("", "..", ".") for part in folder.split("/")[: None if folder else 0]):
        raise Invalid(f"the registry gave {_without_query(text)!r}, whose folder {folder!r} leads out of it")
    url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    if getter == "git":
        return _repository(text, url, folder, given)
    if getter or parts.scheme != "https":
        raise Invalid(
            f"the registry gave {_without_query(text)!r}, which is neither an https address of an archive nor a git repository"
        )
    return _archive(text, url, folder, given, parts.query)


def _without_query(text: str) -> str:
    """Return what a registry gave as messages have it: a query can be a signature that opens the archive."""
    return text.partition("?")[0][:300]


def _repository(text: str, url: str, folder: str, given: dict[str, str]) -> Location:
    if problem := git.url_problem(url):
        raise Invalid(f"the registry gave a git repository that is refused: {problem}")
    if unknown := given.keys() - _KNOWN:
        raise Invalid(
            f"the registry gave {_without_query(text)!r} with {', '.join(sorted(unknown))}, which is not understood"
        )
    return Location("git", url, folder, given.get("ref", ""))


def _archive(text: str, url: str, folder: str, given: dict[str, str], query: str) -> Location:
    wanted = given.get("archive", "")
    ending = next((kind for end, kind in _ENDINGS.items() if url.endswith(end)), "")
    kind = {"tgz": "tar.gz"}.get(wanted, wanted) or ending
    if kind not in ("tar.gz", "zip"):
        raise Invalid(
            f"the registry gave {_without_query(text)!r}, which is not an archive of a known kind: use tar.gz or zip"
        )
    kept = "&".join(each for each in query.split("&") if each and each.split("=")[0] not in ("archive", "checksum"))
    whole = f"{url}?{kept}" if kept else url
    return Location(kind, whole, folder, checksum=given.get("checksum", ""))  # pyright: ignore[reportArgumentType]
