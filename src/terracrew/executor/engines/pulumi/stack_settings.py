"""Writes the inputs of a module into the settings of its stack, the file `Pulumi.<stack>.yaml`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.pulumi import project


def file_of(folder: Path, stack: str) -> Path:
    return folder / f"Pulumi.{stack.rpartition('/')[2]}.yaml"


def write(folder: Path, project_name: str, stack: str, inputs: Mapping[str, object]) -> None:
    """Add the inputs to the settings that the source may have for this stack. An input takes precedence over them."""
    if not inputs:
        return
    path = file_of(folder, stack)
    settings = project.read(path) if path.exists() else {}
    config: Any = settings.get("config") or {}
    if not isinstance(config, dict):
        raise Invalid(f"`config` in {path.name} is not a mapping")
    settings["config"] = {**config, **{f"{project_name}:{name}": value for name, value in inputs.items()}}
    path.unlink(missing_ok=True)  # it may be shared with a cache
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(settings))  # JSON is YAML, too
