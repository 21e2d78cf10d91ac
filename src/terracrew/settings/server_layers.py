"""Reads the layers of a server's settings: defaults, file, environment, command line, external settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from terracrew.settings import files, merging, server_combinations
from terracrew.settings.external import layer as external_layer
from terracrew.settings.layer import Layer
from terracrew.settings.merging import Merged
from terracrew.settings.server import PREFIX, ServerSettings


def merged(file: Path | None = None, options: Mapping[str, Any] | None = None) -> Merged[ServerSettings]:
    """Return the settings with the layer that each came from. Raises Invalid with all errors at once."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    layers = [
        merging.command_line(ServerSettings, given, {name: f"--{name.replace('_', '-')}" for name in given}),
        merging.environment_layer(ServerSettings, PREFIX, ignores_empty=True),
        files.layer(file) if file else Layer("file", {}),
    ]
    found, external = external_layer.above(ServerSettings, layers)
    made = merging.merge(ServerSettings, found, PREFIX, server_combinations.check, external)
    return made._replace(settings=made.settings.read_from(file, external))
