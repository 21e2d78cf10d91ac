"""What `init` makes of a workspace: which of it can be kept for later jobs, and how it is made again from what was kept.

`.terraform/` contains
  modules/            modules.json, and the modules that were downloaded: kept without their repositories (`.git`), which no plan
                      needs, and whose configuration may name a credential
  terraform.tfstate   the configuration of the backend: kept if it holds no credential (`kept_backend`)
  providers/          never kept: the lock file of the source names the packages, and they are linked from the shared cache,
                      which only the runner writes. `plan` compares each package with the checksums of the lock file.

A directory with anything else in it is not kept. Everything is read without following links.
"""

import contextlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.engine_rules import flags as engine_flags
from terracrew.errors import Invalid, TooLarge
from terracrew.executor.engines.contract import InitFile
from terracrew.executor.engines.hcl import blocks, kept_backend, lockfile, pinned_modules, plugins
from terracrew.executor.engines.hcl.dialect import MAX_CONFIGURATION_BYTES, Dialect

FOLDER = ".terraform"
MAX_BYTES = 64 << 20
"""Of modules that are larger together, each job downloads its own copy."""
_MAX_FILES = 20_000
_MAX_LEVELS = 40
_PROVIDER_LEVELS = 4
_BACKEND, _MODULES, _PROVIDERS = "terraform.tfstate", "modules", "providers"
_REPOSITORY = ".git"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ARGUMENT_VARIABLES = ("TF_CLI_ARGS", "TF_CLI_ARGS_init")
_CODE_VARIABLES = ("TF_ENCRYPTION", "TF_REATTACH_PROVIDERS")
"""They name programs that run in `init`, or instead of the providers that it finds."""
_CONFIGURATION_FOLDERS = (".terraform.d", ".config/opentofu")
_LINE_BREAK = re.compile(r"\s*\n[│|]?\s*")
_MISSING = re.compile(
    r"""Error:[ ](?:
        Module[ ](?:not[ ]installed|source[ ]has[ ]changed|version[ ]requirements[ ]have[ ]changed)
      | Unreadable[ ]module[ ]directory
      | Missing[ ]required[ ]provider
      | Required[ ]plugins[ ]are[ ]not[ ]installed
      | Inconsistent[ ]dependency[ ]lock[ ]file
      | Backend[ ]initialization[ ]required
      | Initialization[ ]required
      | (?:Could[ ]not|Failed[ ]to)[ ]load[ ]plugin
    )
    | [`"'](?:tofu|terraform)[ ]init\b
    | unavailable[ ]provider[ ]"
    | there[ ]is[ ]no[ ]package[ ]for[ ]\S+[ ]\S+[ ]cached[ ]in
    | does[ ]not[ ]match[ ]any[ ]of[ ]the[ ]checksums[ ]recorded""",
    re.X,
)


def is_missing(printed: str) -> bool:
    """Return whether a failed command says that a provider, a module or the backend has to be initialized."""
    return _MISSING.search(_LINE_BREAK.sub(" ", printed)) is not None


def check(folder: Path, patterns: Sequence[str], flags: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise Invalid if `init` has to run in every job of a module, whatever it makes."""
    if os.path.lexists(folder / FOLDER):
        raise Invalid(f"the workspace has a {FOLDER} already")
    for name in _CODE_VARIABLES:
        if environment.get(name):
            raise Invalid(f"{name} is set")
    arguments = [*flags, *(each for name in _ARGUMENT_VARIABLES for each in shlex.split(environment.get(name, "")))]
    for before, argument in pairwise(["", *arguments]):  # the value of a flag may be the next word
        flag, _, value = (argument if argument.startswith("-") else f"{before}={argument}").partition("=")
        if engine_flags.name_of(flag) == "upgrade" or value.startswith("/") or ".." in PurePosixPath(value).parts:
            raise Invalid(f"init has the flag {flag}")
    if blocks.has_encryption(folder, patterns):
        raise Invalid("the configuration has an encryption block, which can run programs in init")


def configurations(dialect: Dialect, environment: Mapping[str, str]) -> list[str | bytes]:
    """Return the content of all configuration files of the program that an engine with this environment reads. Raises TooLarge: the
    environment may name anything, and what is not read cannot be compared."""
    home = Path(environment.get("HOME", "/nowhere"))
    paths = [Path(environment.get("TF_CLI_CONFIG_FILE", "/nowhere"))]
    paths += [home / name for name in dialect.home_configurations]
    folders = [home / name for name in _CONFIGURATION_FOLDERS]
    folders.append(Path(environment.get("XDG_CONFIG_HOME") or "/nowhere", "opentofu"))
    for folder in folders:
        with contextlib.suppress(OSError):  # there is no such folder
            paths += [folder / name for name in sorted(os.listdir(folder)) if ".tfrc" in name]
    found: list[str | bytes] = []
    for path in paths:
        try:
            content = read_produced(path, MAX_CONFIGURATION_BYTES, follows_link=True)
            found += [path.name, content]  # jobs may share this home
        except TooLarge:
            raise
        except Invalid:
            found.append(path.name)
    return found


def capture(
    folder: Path, workspace: Path, patterns: Sequence[str], *, has_our_backend: bool, lock_before: bytes
) -> list[InitFile]:
    """Return the files to keep. Raises Invalid, with the reason, if the next job has to run `init`, too."""
    if lockfile.content(folder) != lock_before:
        raise Invalid("the lock file of the source does not name every provider for this platform")
    files: list[InitFile] = []
    try:
        top = os.open(folder / FOLDER, _DIRECTORY)
    except FileNotFoundError:
        return files  # the module has nothing that is initialized
    try:
        for name in sorted(os.listdir(top)):
            if name == _BACKEND:
                content = _read(top, name).content
                kept_backend.check(content, has_our_backend=has_our_backend)
                files.append(InitFile(f"{FOLDER}/{name}", content))
            elif name == _MODULES:
                files += _modules(top, folder, workspace, patterns)
            elif name != _PROVIDERS:
                raise Invalid(f"{FOLDER} has a file {name!r}, which is not known")
            elif unknown := _providers(top) - {each.provider.folder for each in lockfile.read(folder)}:
                raise Invalid(
                    f"the lock file of the source has another form than `init` gives it: {min(unknown)} is missing"
                )
    except OSError as error:
        raise Invalid(f"{FOLDER} cannot be read: {error}") from error
    finally:
        os.close(top)
    return files


def place(folder: Path, shared: Path, files: Sequence[InitFile]) -> None:
    """Make the directory from what was kept. Raises Invalid if this machine does not have a provider of the lock file yet."""
    links: list[tuple[Path, Path]] = []
    for locked in lockfile.read(folder):
        package = shared / locked.provider.folder / plugins.platform()
        if plugins.known_checksum(shared, locked.provider) not in locked.hashes:
            raise Invalid(f"this runner does not have {locked.provider.folder} yet")
        links.append((folder / FOLDER / _PROVIDERS / locked.provider.folder / plugins.platform(), package))
    (folder / FOLDER).mkdir(mode=0o755)
    for link, package in links:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(package)
    made = {folder / FOLDER}
    for each in files:
        path = folder / each.path
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        with open(os.open(path, _NEW_FILE, 0o755 if each.is_executable else 0o644), "wb") as file:
            file.write(each.content)


def remove(folder: Path, workspace: Path, lock_before: bytes) -> None:
    """Remove the directory, and restore the lock file. The module has run, and may run still, so no link that it made is followed.
    Raises OSError if the directory cannot be removed."""
    parent = os.open(workspace, _DIRECTORY)
    try:
        for name in folder.relative_to(workspace).parts:
            below = os.open(name, _DIRECTORY, dir_fd=parent)
            os.close(parent)
            parent = below
        if lockfile.content(folder) != lock_before:
            os.unlink(lockfile.NAME, dir_fd=parent)
            if lock_before:
                with open(os.open(lockfile.NAME, _NEW_FILE, 0o644, dir_fd=parent), "wb") as file:
                    file.write(lock_before)
        if stat.S_ISDIR(os.stat(FOLDER, dir_fd=parent, follow_symlinks=False).st_mode):
            shutil.rmtree(FOLDER, dir_fd=parent)  # it fails if there is a link in its place now
        else:
            os.unlink(FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return
    except RecursionError as error:
        raise OSError(f"{FOLDER} has too many levels of folders") from error
    finally:
        os.close(parent)


def _providers(top: int) -> set[str]:
    """Return the folders of the providers that `init` has installed, as the caches have them: `<host>/<namespace>/<type>/<version>`."""
    found = {_PROVIDERS}
    for _ in range(_PROVIDER_LEVELS):
        found = {f"{path}/{name}" for path in found for name in _names(top, path)}
    return {path.removeprefix(f"{_PROVIDERS}/") for path in found}


def _names(top: int, path: str) -> list[str]:
    directory = os.open(path, _DIRECTORY, dir_fd=top)
    try:
        return os.listdir(directory)
    finally:
        os.close(directory)


def _modules(top: int, folder: Path, workspace: Path, patterns: Sequence[str]) -> list[InitFile]:
    below = os.open(_MODULES, _DIRECTORY, dir_fd=top)
    try:
        manifest = _read(below, "modules.json").content
    finally:
        os.close(below)
    is_any_downloaded = pinned_modules.check(manifest, folder, workspace, patterns)
    path = f"{FOLDER}/{_MODULES}"
    if not is_any_downloaded:
        return [InitFile(f"{path}/modules.json", manifest)]
    files: list[InitFile] = []
    size = 0
    for each in _tree(os.open(_MODULES, _DIRECTORY, dir_fd=top), path):
        size += len(each.content)
        if size > MAX_BYTES or len(files) >= _MAX_FILES:
            raise Invalid(f"the modules have more than {MAX_BYTES >> 20} MB or {_MAX_FILES:,} files")
        files.append(each)
    if manifest not in (each.content for each in files if each.path == f"{path}/modules.json"):
        raise Invalid("modules.json changed while it was read")
    return files


def _tree(directory: int, path: str, level: int = 0) -> Iterator[InitFile]:
    """Yield all files below a directory, and close its descriptor. Anything but files and directories is refused.

    A repository that a module was checked out from is left out.
    """
    try:
        if level > _MAX_LEVELS:
            raise Invalid(f"the modules have more than {_MAX_LEVELS} levels of folders")
        for name in sorted({*os.listdir(directory)} - {_REPOSITORY}):
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                yield from _tree(os.open(name, _DIRECTORY, dir_fd=directory), f"{path}/{name}", level + 1)
            else:
                found = _read(directory, name)
                yield msgspec.structs.replace(found, path=f"{path}/{name}")
    finally:
        os.close(directory)


def _read(directory: int, name: str) -> InitFile:
    """Return a regular file of a directory."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        raise Invalid(f"{name!r} in {FOLDER} cannot be read: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise Invalid(f"{name!r} in {FOLDER} is not a regular file of at most {MAX_BYTES >> 20} MB")
        return InitFile(name, file.read(MAX_BYTES + 1), bool(found.st_mode & 0o100))
