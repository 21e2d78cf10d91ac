"""Reads the layers of a server's settings: defaults, file, environment, command line, external settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from terracrew.settings import files, merging, server_combinations
from terracrew.settings.external import layer as external_layer
from terracrew.settings.layer import Layer
from terracrew.settings.merging import Merged
from terracrew.settings.server import PREFIX, ServerFile


def merged(file: Path | None = None, options: Mapping[str, Any] | None = None) -> Merged[ServerFile]:
    """Return the settings with the layer that each came from. Raises Invalid with all errors at once."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    layers = [
        merging.command_line(ServerFile, given, {name: f"--{name.replace('_', '-')}" for name in given}),
        merging.environment_layer(ServerFile, PREFIX, ignores_empty=True),
        files.layer(file) if file else Layer("file", {}),
    ]
    found, external = external_layer.above(ServerFile, layers)
    return merging.merge(ServerFile, found, PREFIX, server_combinations.check, external)
