"""Reads the layers of a server's settings: defaults, file, environment, command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from terracrew.settings import files, merging
from terracrew.settings.merging import Layer, Merged
from terracrew.settings.server import ServerFile


def merged(file: Path | None = None, options: Mapping[str, Any] | None = None) -> Merged[ServerFile]:
    """Return the settings with the layer that each came from. Raises Invalid with all errors at once."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    layers = [
        Layer("command line", given),
        merging.ENVIRONMENT,
        Layer(str(file), files.read(file) if file else {}),
    ]
    return merging.merge(ServerFile, layers)
