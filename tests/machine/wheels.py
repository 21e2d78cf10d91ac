"""Wheels of this tree with another version, and with other files where a test wants a release that does not work.

    wheels.build("0.1.0-rc.2")
    wheels.build("0.1.0-rc.3", {"runner/main.py": "raise SystemExit(3)"})

A wheel takes a second. It is kept in the cache of the engines under the hash of what it was made of, so that several tests and
workers share it; wheels that no test has asked for in a day are removed. Do not change the file: copy it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import terracrew
from terracrew.toolchains import cache as shared
from tests.machine.needs import need

_SOURCES = Path(terracrew.__file__).parent
_ROOT = _SOURCES.parents[1]
_PROJECT_FILES = ("pyproject.toml", "README.md", "LICENSE")
_VERSION_LINE = re.compile(r'^__version__ = ".*"$', re.MULTILINE)
_KEPT_SECONDS = 86_400
_EPOCH = "1700000000"
"""The time of every file in the wheel, so that the same content gives the same bytes."""


def build(version: str, changes: Mapping[str, str] | None = None) -> Path:
    """Return a wheel of this tree that says it is this version. `changes` has texts of files, by their path in the package."""
    need(None if find_spec("hatchling") else "no hatchling here: `make .venv/.dev` installs it")
    changed = dict(changes or {})
    changed.setdefault("__init__.py", (_SOURCES / "__init__.py").read_text())
    changed["__init__.py"] = _VERSION_LINE.sub(f'__version__ = "{version}"', changed["__init__.py"])
    digest = hashlib.sha256((_digest_of_tree() + repr(sorted(changed.items()))).encode()).hexdigest()[:20]
    kept = shared.root() / "test-wheels" / digest
    if not (found := list(kept.glob("*.whl"))):
        with shared.locked(f"test-wheels-{digest}", lambda: None) as workplace:
            if not kept.exists():
                _remove_old(kept.parent)
                _make(workplace, changed).rename(kept)
            found = list(kept.glob("*.whl"))
    os.utime(kept)
    (wheel,) = found
    return wheel


@cache
def _digest_of_tree() -> str:
    files = [*(_ROOT / name for name in _PROJECT_FILES), *sorted(_SOURCES.rglob("*"))]
    digest = hashlib.sha256()
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(_ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _make(workplace: Path, changed: Mapping[str, str]) -> Path:
    """Build the wheel in this directory, and return the directory that contains only it."""
    package = workplace / "src" / "terracrew"
    shutil.copytree(_SOURCES, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _PROJECT_FILES:
        shutil.copy(_ROOT / name, workplace)
    for name, text in changed.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(workplace / "made")]
    env = os.environ | {"SOURCE_DATE_EPOCH": _EPOCH}
    done = subprocess.run(command, cwd=workplace, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return workplace / "made"


def _remove_old(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in folder.iterdir():
        if each.stat().st_mtime < time.time() - _KEPT_SECONDS:
            shutil.rmtree(each, ignore_errors=True)
