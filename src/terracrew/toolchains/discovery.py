"""Finds the engines of this machine: configured directories first, then PATH, then our own cache.

Versions that are too old for Terracrew come after all others: a program that an operating system brought along does not keep
jobs from using one that was installed for them.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from terracrew.errors import EngineMissing, Invalid
from terracrew.toolchains import cache, remembered, specs

_PROBE_TIMEOUT_SECONDS = 10.0
# Version switchers need these variables. Secrets are left out, and so are TF_ variables, which may name a broken file or enable logging.
_PASSED = re.compile(r"(PATH|HOME|USER|LANG|TMPDIR|(XDG|ASDF|MISE|TENV|TFENV|TOFUENV)_.*)$")
_QUIET = {"TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1", "PULUMI_SKIP_UPDATE_CHECK": "true"}
_NUMBER = re.compile(r"v?(\d+\.\d+\.\d+[0-9A-Za-z.+-]*)")


class FoundEngine(msgspec.Struct, frozen=True):
    """An engine on this machine, with the version that it reported."""

    name: str
    path: str
    version: str


class _VersionAnswer(msgspec.Struct):
    terraform_version: str


def find(engine: str, extra_paths: Sequence[str] = ()) -> FoundEngine | None:
    """Return the engine that a job would use, or None."""
    return next(_search(specs.get(engine), extra_paths), None)


def find_versions(engine: str, extra_paths: Sequence[str] = ()) -> list[FoundEngine]:
    """Return every program of this engine on this machine. The first one is the one that a job uses by default."""
    return list(_search(specs.get(engine), extra_paths))


def find_on_path(engine: str, extra_paths: Sequence[str] = ()) -> FoundEngine | None:
    """Return the first engine in the configured directories and PATH, where Terracrew installs nothing, or None."""
    return next(_usable_first(spec := specs.get(engine), _on_path(spec, extra_paths)), None)


def find_all(extra_paths: Sequence[str] = ()) -> list[FoundEngine]:
    """Return every engine on this machine. The first one of each name is the one that a job would use."""
    return [found for spec in specs.ENGINES.values() for found in _search(spec, extra_paths)]


def require(engine: str, extra_paths: Sequence[str] = ()) -> FoundEngine:
    """Return the engine that a job would use, or raise an error that says where it was searched for and how to install it."""
    if found := find(engine, extra_paths):
        return found
    spec = specs.get(engine)
    broken = [str(path) for path in _candidates(spec, extra_paths)]
    raise EngineMissing(
        f"{spec.title} is not on this machine"
        + (f" ({', '.join(broken)} did not answer `{' '.join(spec.ask)}`)" if broken else "")
        + f": looked for `{spec.programs[0].binary}` in {', '.join(map(str, _directories(extra_paths)))}"
        + f" and {cache.root() / 'engines' / spec.name}. Install it: terracrew engine install {spec.name}",
        engine=spec.name,
    )


def answers(found: FoundEngine) -> bool:
    """Return whether the program that was found still runs. One in the cache was asked only when it was installed."""
    spec = specs.ENGINES.get(found.name)
    return spec is None or ask_version(spec, Path(found.path)) is not None


def ask_version(spec: specs.Spec, path: Path) -> str | None:
    """Return the version that the program reports, or None if it does not answer. It is asked again only if the file changes."""
    try:
        if known := remembered.version(path):
            return known
        stat = path.stat()
        return _ask(str(path), stat.st_mtime_ns, stat.st_size, spec.ask)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError, ValueError):
        return None


def _search(spec: specs.Spec, extra_paths: Sequence[str]) -> Iterator[FoundEngine]:
    return _usable_first(spec, _everywhere(spec, extra_paths))


def _usable_first(spec: specs.Spec, engines: Iterator[FoundEngine]) -> Iterator[FoundEngine]:
    old: list[FoundEngine] = []
    for found in engines:
        if specs.is_too_old(spec, found.version):
            old.append(found)
        else:
            yield found
    yield from old


def _everywhere(spec: specs.Spec, extra_paths: Sequence[str]) -> Iterator[FoundEngine]:
    seen: set[str] = set()
    for found in _on_path(spec, extra_paths):
        seen.add(os.path.realpath(found.path))
        yield found
    # The engine was asked for its version before it was moved into the cache, and its directory is named after the answer.
    for version, path in cache.installed(spec):
        if os.path.realpath(path) not in seen:
            yield FoundEngine(spec.name, str(path), version)


def _on_path(spec: specs.Spec, extra_paths: Sequence[str]) -> Iterator[FoundEngine]:
    for path in _candidates(spec, extra_paths):
        if version := ask_version(spec, path):
            yield FoundEngine(spec.name, str(path), version)


def _candidates(spec: specs.Spec, extra_paths: Sequence[str]) -> Iterator[Path]:
    seen: set[str] = set()
    for folder in _directories(extra_paths):
        hit = shutil.which(spec.programs[0].binary, path=str(folder))
        if hit and (real := os.path.realpath(hit)) not in seen:
            seen.add(real)
            yield Path(hit)


def _directories(extra_paths: Sequence[str]) -> list[Path]:
    extra = [os.path.expanduser(entry) for entry in extra_paths]
    # A relative entry would find engines in the current directory, for example in a module's source.
    if relative := [entry for entry in extra if not os.path.isabs(entry)]:
        raise Invalid(f"{relative[0]!r} in engine.additional_binary_paths is not an absolute path")
    path = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]
    return [Path(entry) for entry in dict.fromkeys([*extra, *path])]


@lru_cache(maxsize=64)
def _ask(path: str, _mtime_ns: int, _size: int, ask: tuple[str, ...]) -> str:
    done = subprocess.run(
        [path, *ask],
        cwd="/",
        env={name: value for name, value in os.environ.items() if _PASSED.match(name)} | _QUIET,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_PROBE_TIMEOUT_SECONDS,
        check=True,
    )
    if "-json" in ask:
        return msgspec.json.decode(done.stdout, type=_VersionAnswer).terraform_version
    if match := _NUMBER.search(done.stdout.decode()):
        return match[1]
    raise ValueError("no version in its answer")
