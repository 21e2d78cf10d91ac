"""Provider plug-ins of one attempt. The cache that all attempts share is read-only to them and filled by the runner.

An engine has a plug-in cache of its own, which is removed with the attempt. At first it contains links to the packages of the
shared cache, so that only other packages are downloaded. A link is made only if the engine will use the package unchanged.
Otherwise the engine would try to unpack another package through the link, which it may not do.

shared cache: <host>/<namespace>/<type>/<version>/<os>_<arch>/     a package, as engines lay it out
              <host>/<namespace>/<type>/<version>/<os>_<arch>.h1   its checksum, written last, by the runner
"""

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from terracrew.attempt.engine_directory import EngineDirectory, open_produced, read_produced
from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import lockfile
from terracrew.executor.engines.hcl.lockfile import LockedProvider, Provider
from terracrew.toolchains import cache

_VARIABLE = "TF_PLUGIN_CACHE_DIR"


def platform() -> str:
    return "_".join(cache.system())


class Plugins:
    def __init__(self, private: Path, shared: Path, operators: Path | None) -> None:
        """`operators` is a cache that the operator of this machine made (TF_PLUGIN_CACHE_DIR of the runner), if any."""
        self.private, self.shared, self._operators = private, shared, operators

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
        """Return the folders of the providers that the module uses and the shared cache does not have."""
        used = [one.provider for one in lockfile.read(folder)]
        return [one.folder for one in used if not has(self.shared, one)]

    def _packages(self) -> Iterator[tuple[Provider, Path]]:
        for root in (self._operators, self.shared):
            if root is None:
                continue
            for package in sorted(root.glob(f"*/*/*/*/{platform()}")):
                host, namespace, kind, version = package.relative_to(root).parts[:4]
                provider = Provider(f"{host}/{namespace}/{kind}", version)
                if lockfile.is_sound(provider) and (root is self._operators or has(root, provider)):
                    yield provider, package


def of_attempt(environment: Mapping[str, str], cache_directory: Path, files: EngineDirectory) -> Plugins:
    operators = environment.get(_VARIABLE, "")
    shared = shared_cache(cache_directory)
    return Plugins(files.produced / "plugins", shared, Path(operators) if os.path.isabs(operators) else None)


def shared_cache(cache_directory: Path) -> Path:
    return cache_directory / "plugins"


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
        known = read_produced(recorded, follows_link=True).decode().strip() if recorded.exists() else checksum(package)
    except (Invalid, ValueError):
        return False
    return known in locked.hashes


def environment(private: Path) -> dict[str, str]:
    # Without the second variable, an engine downloads cached packages again if the module's lock file does not name them.
    return {_VARIABLE: str(private), "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1"}
