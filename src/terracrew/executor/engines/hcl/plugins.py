"""Provider plug-ins of one attempt. The cache that all attempts share is read-only to them and filled by the runner.

An engine has a plug-in cache of its own, which is removed with the attempt. At first it contains links to the packages of the
shared cache, so that only other packages are downloaded. A link is made only if the engine will use the package unchanged.
Otherwise the engine would try to unpack another package through the link, which it may not do.

shared cache: <host>/<namespace>/<type>/<version>/<os>_<arch>/     a package, as engines lay it out
              <host>/<namespace>/<type>/<version>/<os>_<arch>.h1   its checksum, written last, by the runner

A disk can damage a package. An attempt whose engine cannot start a provider compares the package with its checksum, and `init`
gets a damaged one anew. The runner compares all packages when it starts, and those that did not serve an attempt after it.
"""

import base64
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from terracrew.attempt.engine_directory import EngineDirectory, open_produced, read_produced
from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import lockfile
from terracrew.executor.engines.hcl.lockfile import LockedProvider, Provider
from terracrew.toolchains import cache

_VARIABLE = "TF_PLUGIN_CACHE_DIR"
_MAX_CHECKSUM_BYTES = 1 << 10
_LINE_BREAK = re.compile(r"\s*\n[│|]?\s*")
_UNUSABLE = re.compile(
    r"""Unrecognized[ ]remote[ ]plugin[ ]message
    | Plugin[ ]did[ ]not[ ]respond
    | failed[ ]to[ ](?:instantiate[ ]provider|load[ ]plugin|obtain[ ]provider[ ]schema)
    | could[ ]not[ ]load[ ](?:plugin|the[ ]schema[ ]for[ ]provider)
    | exec[ ]format[ ]error
    | (?:does[ ]not|doesn't)[ ]match[ ]any[ ]of[ ]the[ ]checksums[ ]recorded""",
    re.X | re.I,
)
"""What engines print if a provider cannot be started, for whatever reason."""


def platform() -> str:
    return "_".join(cache.system())


class Plugins:
    def __init__(self, private: Path, shared: Path, operators: Path | None) -> None:
        """`operators` is a cache that the operator of this machine made (TF_PLUGIN_CACHE_DIR of the runner), if any."""
        self.private, self.shared, self._operators = private, shared, operators
        self._left_out: set[Provider] = set()
        """Providers of the shared cache that turned out to be damaged in this attempt."""

    def provide(self, folder: Path) -> None:
        """Link what the module in this folder can use into the attempt's own cache."""
        locked = {one.provider.address: one for one in lockfile.read(folder)}
        for provider, package in self._packages():
            link = self.private / provider.folder / platform()
            if (
                not os.path.lexists(link)
                and self._is_own(link.parent)
                and _is_usable(package, locked.get(provider.address), provider)
            ):
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(package)

    def _is_own(self, folder: Path) -> bool:
        """Return whether no link leads out of the attempt's own cache: a hook may have made one, and it has fewer rights than the
        executor if engines have a user of their own."""
        below = [self.private, *(each for each in (folder, *folder.parents) if each.is_relative_to(self.private))]
        return not any(each.is_symlink() for each in below)

    def relink(self, folder: Path) -> None:
        """Link the module's own plug-ins directly to the shared cache, because a saved plan outlives the attempt's cache."""
        for directory, names, _ in os.walk(folder / ".terraform" / "providers"):
            for name in names:
                link = Path(directory, name)
                if link.is_symlink() and Path(os.readlink(link)).is_relative_to(self.private):
                    package = Path(os.path.realpath(link))
                    if not package.is_relative_to(self.private) and package.is_dir():
                        link.unlink()
                        link.symlink_to(package)

    def missing(self, folder: Path) -> list[str]:
        """Return the folders of the providers that the module uses and did not get from a cache: the shared cache does not have them,
        or what it has cannot be used."""
        used = [one.provider for one in lockfile.read(folder)]
        return [one.folder for one in used if not (has(self.shared, one) and self._is_cached(_installed(folder, one)))]

    def leave_out_damaged(self, folder: Path, printed: str) -> list[str]:
        """Return the folders of the providers that the module uses from the shared cache and that are damaged. They are not used again.

        `printed` is what a failed command of the engine printed. Nothing is compared unless it may say that a provider cannot start.
        """
        if not _UNUSABLE.search(_LINE_BREAK.sub(" ", printed)):
            return []
        used = [one.provider for one in lockfile.read(folder)]
        found: list[str] = []
        for each in used:
            link = self.private / each.folder / platform()
            is_cached = self._is_cached(link) or self._is_cached(_installed(folder, each))
            if each in self._left_out or not is_cached or not has(self.shared, each):
                continue
            if not is_intact(self.shared, each):
                self._left_out.add(each)
                found.append(each.folder)
                if self._is_own(link.parent) and link.is_symlink():
                    link.unlink()
        return found

    def _is_cached(self, link: Path) -> bool:
        """Return whether a link leads to a package of a cache that is not the attempt's own."""
        package = os.path.realpath(link)
        roots = (os.path.realpath(each) for each in (self.shared, self._operators) if each is not None)
        return any(package.startswith(f"{root}/") for root in roots)

    def _packages(self) -> Iterator[tuple[Provider, Path]]:
        for root in (self._operators, self.shared):
            if root is None:
                continue
            for package in sorted(root.glob(f"*/*/*/*/{platform()}")):
                host, namespace, kind, version = package.relative_to(root).parts[:4]
                provider = Provider(f"{host}/{namespace}/{kind}", version)
                is_ours = root is not self._operators
                if is_ours and (provider in self._left_out or not has(root, provider)):
                    continue
                if lockfile.is_sound(provider):
                    yield provider, package


def of_attempt(environment: Mapping[str, str], cache_directory: Path, files: EngineDirectory) -> Plugins:
    operators = environment.get(_VARIABLE, "")
    shared = shared_cache(cache_directory)
    return Plugins(files.produced / "plugins", shared, Path(operators) if os.path.isabs(operators) else None)


def shared_cache(cache_directory: Path) -> Path:
    return cache_directory / "plugins"


def _installed(folder: Path, provider: Provider) -> Path:
    """Return where the module in this folder has a provider after `init`."""
    return folder / ".terraform" / "providers" / provider.folder / platform()


def has(shared: Path, provider: Provider) -> bool:
    return checksum_file(shared, provider).is_file()


def checksum_file(shared: Path, provider: Provider) -> Path:
    return shared / provider.folder / f"{platform()}.h1"


def known_checksum(shared: Path, provider: Provider) -> str:
    """Return the checksum that the runner recorded for a package of the shared cache; '' if the cache does not have the package."""
    try:
        return checksum_file(shared, provider).read_text().strip()
    except OSError:
        return ""


def is_intact(shared: Path, provider: Provider) -> bool:
    """Return whether a package of the shared cache is what the runner put there. Reads all of it."""
    try:
        return checksum(shared / provider.folder / platform()) == known_checksum(shared, provider)
    except (Invalid, OSError):
        return False


def drop_damaged(shared: Path) -> list[Provider]:
    """Remove every damaged package from the shared cache, and return their providers."""
    found: list[Provider] = []
    for recorded in sorted(shared.glob(f"*/*/*/*/{platform()}.h1")):
        provider = lockfile.provider_of(str(recorded.parent.relative_to(shared)))
        if provider is not None and not is_intact(shared, provider):
            drop(shared, provider)
            found.append(provider)
    return found


def drop(shared: Path, provider: Provider) -> None:
    checksum_file(shared, provider).unlink(missing_ok=True)  # first: without it, nobody uses the package
    shutil.rmtree(shared / provider.folder / platform(), ignore_errors=True)


def checksum(package: Path) -> str:
    """Return the `h1:` checksum of a package, as lock files have it: a hash of the hashes and names of its files. Raises Invalid
    if anything in it is not a file."""
    lines: list[tuple[str, str]] = []
    for directory, _, names in os.walk(package):
        for name in names:
            path = os.path.join(directory, name)
            with open_produced(Path(path), follows_link=True) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            lines.append((os.path.relpath(path, package), digest))
    summary = hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in sorted(lines)).encode())
    return "h1:" + base64.b64encode(summary.digest()).decode()


def _is_usable(package: Path, locked: LockedProvider | None, provider: Provider) -> bool:
    """Return whether an engine uses this package unchanged, for a module with this entry in its lock file, or with none."""
    if locked is None or not locked.hashes:
        return True
    if locked.provider.version != provider.version:
        return False
    recorded = package.with_name(f"{package.name}.h1")
    try:
        known = (
            read_produced(recorded, _MAX_CHECKSUM_BYTES, follows_link=True).decode().strip()
            if recorded.exists()
            else checksum(package)
        )
    except (Invalid, ValueError):
        return False
    return known in locked.hashes


def environment(private: Path) -> dict[str, str]:
    # Without the second variable, an engine downloads cached packages again if the module's lock file does not name them.
    return {_VARIABLE: str(private), "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1"}
