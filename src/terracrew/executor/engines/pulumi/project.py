"""Reads what Terracrew needs to know of a Pulumi project: its name, its stack, and the folder in which its state is kept."""

import os
import re
import shutil
from pathlib import Path
from typing import Any, cast

import yaml

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Invalid
from terracrew.source_rules import configurations

DEFAULT_STACK = "terracrew"
STACK_VARIABLE = "PULUMI_STACK"
_MAX_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


_META = b"version: 1\n"
"""Says that stacks are in the folders of their projects. Without this file, Pulumi expects the layout of its early versions."""


def project_name(folder: Path) -> str:
    """Return the name of the project in this folder. Raises Invalid if there is none."""
    file = _file(folder)
    name = read(file).get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
        raise Invalid(f"{file.name} has no usable name: expected `name:` with letters, digits, `-`, `_` and `.`")
    return name


def has_dependencies(folder: Path) -> bool:
    """Return whether something must be installed before the program can run: a YAML program without packages needs nothing."""
    found = read(_file(folder))
    runtime: object = found.get("runtime")
    if isinstance(runtime, dict):
        runtime = cast("dict[object, object]", runtime).get("name")
    return runtime != "yaml" or bool(found.get("packages"))


def _file(folder: Path) -> Path:
    for file in configurations.PATTERNS["pulumi"]:
        if (folder / file).is_file():
            return folder / file
    raise Invalid("the source has no Pulumi.yaml")


def checked_stack(name: str, *, is_qualified: bool) -> str:
    """Return the name of a stack. A backend that is not Terracrew's may want the organization and the project before it."""
    parts = name.split("/") if is_qualified else [name]
    if len(parts) > 3 or not all(_NAME.fullmatch(part) and part not in (".", "..") for part in parts):
        raise Invalid(f"{STACK_VARIABLE}={name[:120]!r} is not the name of a stack: use letters, digits, `-`, `_`, `.`")
    return name


def read(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file of the source. Raises Invalid if it is something else."""
    content = read_produced(path, _MAX_BYTES)
    try:
        found: object = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Invalid(f"{path.name} cannot be read: {' '.join(str(error).split())[:300]}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Invalid(f"{path.name} is not a mapping")
    return {str(key): value for key, value in cast("dict[object, Any]", found).items()}


class BackendFolder:
    def __init__(self, folder: Path, project: str, stack: str) -> None:
        self._folder = folder
        self.url = f"file://{folder}"
        self.stack_file = folder / ".pulumi" / "stacks" / project / f"{stack}.json"

    def place(self, checkpoint: bytes) -> None:
        if self._folder.is_symlink():
            self._folder.unlink()
        elif self._folder.exists():
            shutil.rmtree(self._folder)
        self.stack_file.parent.mkdir(mode=0o700, parents=True)
        _write(self._folder / ".pulumi" / "meta.yaml", _META)
        _write(self.stack_file, checkpoint)


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
