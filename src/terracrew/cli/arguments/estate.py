"""Reads a configuration that a person has run with the bare engine until now: its files, its engine and its state."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from terracrew.errors import Invalid
from terracrew.source_rules import configurations

_LEFT_OUT = shutil.ignore_patterns(".terraform", ".git")
_REGISTRIES = {"registry.opentofu.org": "tofu", "registry.terraform.io": "terraform"}
_LOCK_FILE = ".terraform.lock.hcl"
_PULL_SECONDS = 300.0


def engine_of(folder: Path) -> str:
    """Return the engine that has run a configuration, as its lock file tells; OpenTofu if nothing tells it."""
    with contextlib.suppress(OSError):
        locked = (folder / _LOCK_FILE).read_text(errors="replace")
        for registry, engine in _REGISTRIES.items():
            if f'"{registry}/' in locked:
                return engine
    return "tofu"


@contextlib.contextmanager
def without_backend(root: Path, folder: Path, engine: str) -> Generator[tuple[Path, list[str]]]:
    """Yield a copy of `root` in which the configuration in `folder`, which is in it, does not say where its state is, and the names
    of the files from which that was left out."""
    from terracrew.executor.engines.hcl import backend_blocks

    patterns = configurations.PATTERNS[engine]
    if not any(configurations.is_match(each.name, patterns) for each in folder.iterdir()):
        raise Invalid(configurations.missing("", engine, patterns))
    with tempfile.TemporaryDirectory(prefix="terracrew-") as made:
        copy = Path(made) / "source"
        shutil.copytree(root, copy, symlinks=True, ignore=_LEFT_OUT)
        changed: list[str] = []
        for path in backend_blocks.configuration_files(copy / folder.relative_to(root), patterns):
            text = path.read_bytes().decode(errors="surrogateescape")
            left = backend_blocks.without_backend(text, is_json=path.suffix == ".json")
            if left != text and not path.is_symlink():
                path.write_bytes(left.encode(errors="surrogateescape"))
                changed.append(path.name)
        yield copy, changed


def state_of(folder: Path, engine: str, given: BinaryIO | None) -> bytes:
    """Return the state of a configuration: that of a file, or what the engine on this machine finds in its backend."""
    if given is not None:
        return given.read()
    found = _pulled(folder, engine)
    if not found.strip():
        raise Invalid(
            f"{folder} has no state, so there is nothing to bring",
            hint="`terracrew module create` makes a module without one; --state FILE names one",
        )
    return found


def _pulled(folder: Path, engine: str) -> bytes:
    from terracrew.toolchains import discovery

    program = discovery.find(engine)
    if program is None:
        raise Invalid(
            f"{engine} is not on this machine, so it cannot be asked for the state of {folder}",
            hint="run `state pull` where it is, and give the state with --state FILE; or choose another one with --engine",
        )
    environment = {**os.environ, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}
    try:
        ended = subprocess.run(
            [program.path, "state", "pull"],
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
            timeout=_PULL_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise Invalid(f"`{engine} state pull` in {folder} did not end within {_PULL_SECONDS:g} seconds") from None
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()
        raise Invalid(
            f"`{engine} state pull` in {folder} failed: {said[-1000:]}",
            hint=f"run `{engine} init` there first, or give the state with --state FILE",
        )
    # The engine prints warnings about its own configuration before the state.
    return ended.stdout[max(0, ended.stdout.find(b"{")) :] if b"{" in ended.stdout else b""
