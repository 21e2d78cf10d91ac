"""Checks that every module that `init` found would be the same if `init` ran again: it is in the source, or pinned exactly.

`.terraform/modules/modules.json` says which modules were found, and where. It does not say which versions a call accepts, so
that is read from the configuration that calls the module.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import blocks

_INSTALLED = ".terraform/modules"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_EXACT_VERSION = re.compile(r"=?\s*v?\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?")


class _FoundModule(msgspec.Struct, rename="pascal"):
    key: str
    source: str
    dir: str
    version: str = ""


class _FoundModules(msgspec.Struct, rename="pascal"):
    modules: list[_FoundModule]


_decode = msgspec.json.Decoder(_FoundModules).decode


def check(manifest: bytes, folder: Path, workspace: Path, patterns: Sequence[str]) -> bool:
    """Return whether `init` downloaded any of the modules. Raises Invalid for one that may be another one the next time.

    The workspace is what the source consists of: a module that is in it has not changed if the source has not.
    """
    try:
        modules = {each.key: each for each in _decode(manifest).modules}
    except (ValueError, RecursionError) as error:
        raise Invalid(f"modules.json cannot be read: {error}") from error
    is_any_downloaded = False
    for key, module in modules.items():
        if not key:
            if module.dir != ".":
                raise Invalid("modules.json names another folder as the root module")
            continue
        parent = modules.get(key.rpartition(".")[0])
        if parent is None:
            raise Invalid(f"modules.json has the module {key} without the one that calls it")
        if module.source.startswith(("./", "../")):
            _check_local(module, parent, folder, workspace)
        else:
            _check_downloaded(module, parent, folder, patterns)
            is_any_downloaded = True
    return is_any_downloaded


def _check_local(module: _FoundModule, parent: _FoundModule, folder: Path, workspace: Path) -> None:
    expected = posixpath.normpath(posixpath.join(parent.dir, module.source))
    if module.dir != expected or not (folder / expected).resolve().is_relative_to(workspace.resolve()):
        raise Invalid(f"the module {module.key} is not a folder of the source")


def _check_downloaded(module: _FoundModule, parent: _FoundModule, folder: Path, patterns: Sequence[str]) -> None:
    installed = f"{_INSTALLED}/{module.key}"
    if posixpath.normpath(module.dir) != module.dir or not f"{module.dir}/".startswith(f"{installed}/"):
        raise Invalid(f"the module {module.key} is not where `init` puts modules")
    if module.version:
        name = module.key.rpartition(".")[2]
        wanted = set(_versions(folder / parent.dir, patterns).get(name, ()))
        if len(wanted) != 1 or not _EXACT_VERSION.fullmatch(wanted.pop().strip()):
            raise Invalid(f"the module {module.key} is not called with one exact version")
    elif not _is_commit(module.source):
        raise Invalid(f"the source of the module {module.key} is not pinned to a commit")


def _is_commit(source: str) -> bool:
    """Return whether this is the whole id of a commit in a git repository, fetched without a credential in its address."""
    if not source.startswith("git::"):
        return False
    try:
        parts = urlsplit(source.removeprefix("git::"))
        query = parse_qs(parts.query)
        is_account = parts.username is None or (parts.scheme == "ssh" and parts.password is None)
        has_credential = not is_account or "sshkey" in query
    except ValueError:
        return False
    references = query.get("ref", [])
    return len(references) == 1 and bool(_COMMIT.fullmatch(references[0])) and not has_credential


def _versions(folder: Path, patterns: Sequence[str]) -> Mapping[str, list[str]]:
    """Return the versions that the calls in one module accept, by the name of the call. Several files may change one call."""
    found: dict[str, list[str]] = {}
    for path in blocks.configuration_files(folder, patterns):
        text = blocks.text_of(path)
        for name, version in (_in_json if path.suffix == ".json" else _in_native)(text):
            found.setdefault(name, []).append(version)
    return found


def _in_native(text: str) -> Iterator[tuple[str, str]]:
    depth = 0
    call = ""
    before: list[str] = []  # the words, labels and equals signs since the last bracket
    for kind, value, _ in blocks.tokens(text):
        if value == "{":
            if depth == 0:
                call = before[-1].strip('"') if before[-2:-1] == ["module"] else ""
            depth += 1
            before = []
        elif value in ("}", ")", "]", "(", "["):
            depth -= value == "}"
            before = []
        else:
            before.append(value)
            if kind == "label" and depth == 1 and call and before[-3:-1] == ["version", "="]:
                yield call, value[1:-1]


def _in_json(text: str) -> Iterator[tuple[str, str]]:
    try:
        content = msgspec.json.decode(text)
    except ValueError:
        return
    for calls in blocks.json_blocks(content, "module"):
        for name in calls:
            for body in blocks.json_blocks(calls, name):
                if isinstance(version := body.get("version"), str):
                    yield name, version
