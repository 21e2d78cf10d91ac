"""What `init` makes of a workspace: which of it can be kept for later jobs, and how it is made again from what was kept.

`.terraform/` contains
  modules/            modules.json, which says where each module is: kept if all of them are folders of the source
  terraform.tfstate   not a state, but the configuration of the backend: kept if it is that of Terracrew, with no value in it
  providers/          never kept: the lock file of the source names the packages, and they are linked from the shared cache,
                      which only the runner writes. `plan` compares each package with the checksums of the lock file.

A directory with anything else in it is not kept. Everything is read without following links.
"""

import contextlib
import os
import posixpath
import re
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.engine_rules import flags as engine_flags
from terracrew.errors import Invalid, TooLarge
from terracrew.executor.engines.contract import InitFile
from terracrew.executor.engines.hcl import blocks, lockfile, plugins
from terracrew.executor.engines.hcl.dialect import MAX_CONFIGURATION_BYTES, Dialect

FOLDER = ".terraform"
_MAX_FILE_BYTES = 4 << 20
_PROVIDER_LEVELS = 4
_BACKEND, _MODULES, _PROVIDERS, _MANIFEST = "terraform.tfstate", "modules", "providers", "modules.json"
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


class _Backend(msgspec.Struct):
    type: str
    config: dict[str, Any] | None = None


class _BackendConfiguration(msgspec.Struct):
    backend: _Backend | None = None


class _FoundModule(msgspec.Struct, rename="pascal"):
    key: str
    source: str
    dir: str


class _FoundModules(msgspec.Struct, rename="pascal"):
    modules: list[_FoundModule]


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


def capture(folder: Path, workspace: Path, *, has_our_backend: bool, lock_before: bytes) -> list[InitFile]:
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
                content = _read(top, name)
                check_backend(content, has_our_backend=has_our_backend)
                files.append(InitFile(f"{FOLDER}/{name}", content))
            elif name == _MODULES:
                content = _manifest(top)
                check_modules(content, folder, workspace)
                files.append(InitFile(f"{FOLDER}/{_MODULES}/{_MANIFEST}", content))
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
    for each in files:
        path = folder / each.path
        path.parent.mkdir(exist_ok=True)
        with open(os.open(path, _NEW_FILE, 0o644), "wb") as file:
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


def remove_sent(folder: Path, workspace: Path) -> None:
    """Remove what the command line of a person has sent of its own `init`, if that is only a list of modules that are folders of the
    source: `init` makes the list again, and it would keep the workspace from being warm. Other modules stay, because a runner may not
    be able to download them."""
    try:
        top = os.open(folder / FOLDER, _DIRECTORY)
    except OSError:
        return
    try:
        if os.listdir(top) != [_MODULES] or _names(top, _MODULES) != [_MANIFEST]:
            return
        check_modules(_manifest(top), folder, workspace)
    except (Invalid, OSError):
        return
    finally:
        os.close(top)
    remove(folder, workspace, lockfile.content(folder))


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


def _manifest(top: int) -> bytes:
    below = os.open(_MODULES, _DIRECTORY, dir_fd=top)
    try:
        return _read(below, _MANIFEST)
    finally:
        os.close(below)


def check_modules(manifest: bytes, folder: Path, workspace: Path) -> None:
    """Raise Invalid for a module that is not a folder of the source: it may be another one the next time.

    The workspace is what the source consists of: a module that is in it has not changed if the source has not.
    """
    try:
        modules = {each.key: each for each in msgspec.json.decode(manifest, type=_FoundModules).modules}
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{_MANIFEST} cannot be read: {error}") from error
    for key, module in modules.items():
        if not key:
            if module.dir != ".":
                raise Invalid(f"{_MANIFEST} names another folder as the root module")
            continue
        parent = modules.get(key.rpartition(".")[0])
        if parent is None:
            raise Invalid(f"{_MANIFEST} has the module {key} without the one that calls it")
        place = posixpath.normpath(posixpath.join(parent.dir, module.source))
        is_local = module.source.startswith(("./", "../")) and module.dir == place
        if not is_local or not (folder / place).resolve().is_relative_to(workspace.resolve()):
            raise Invalid(f"the module {key} is not a folder of the source")


def check_backend(content: bytes, *, has_our_backend: bool) -> None:
    """Raise Invalid if the configuration of a backend may have a credential in it. An engine writes into it what the configuration and
    the flags say, and not what it takes from the environment, as it does for the backend of Terracrew."""
    try:
        backend = msgspec.json.decode(content, type=_BackendConfiguration).backend
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the configuration of the backend cannot be read: {error}") from error
    if backend is None:
        raise Invalid("the configuration of the backend is empty")
    if not has_our_backend:
        raise Invalid(
            f"the module has a backend of its own ({backend.type}), whose configuration may hold a credential"
        )
    if backend.type != "http":
        raise Invalid(f"the backend is {backend.type}, and not that of Terracrew")
    if given := sorted(name for name, value in (backend.config or {}).items() if value not in (None, "")):
        raise Invalid(f"the configuration of the backend {backend.type} has {', '.join(given)}")


def _read(directory: int, name: str) -> bytes:
    """Return the content of a regular file of a directory."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        raise Invalid(f"{name!r} in {FOLDER} cannot be read: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE_BYTES:
            raise Invalid(f"{name!r} in {FOLDER} is not a regular file of at most {_MAX_FILE_BYTES >> 20} MB")
        return file.read(_MAX_FILE_BYTES + 1)
