"""Reads the layers of a runner's settings: defaults, file, environment, command line."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from terracrew.errors import Invalid
from terracrew.runner.config import RunnerConfig
from terracrew.settings import files, merging
from terracrew.settings.merging import Layer, Merged
from terracrew.settings.runner import RunnerSettings

ADDRESSES = ("TERRACREW_API_URL", "TERRACREW_URL")
"""The variables that set `server.url`; the first one that is set counts."""
_SECRETS = ("runner.credentials.client_secret", "runner.credentials.worker_token")


def load(file: Path | None = None, options: Mapping[str, Any] | None = None) -> RunnerConfig:
    """Read every layer. `options` has dotted names. Raises Invalid with all errors at once."""
    config = merged(file, options).settings.config()
    if file is None:
        return config
    # The file may hold the runner's credentials, so no module may read it.
    isolation = msgspec.structs.replace(config.isolation, private_paths=[str(file.absolute())])
    return msgspec.structs.replace(config, isolation=isolation)


def merged(file: Path | None = None, options: Mapping[str, Any] | None = None) -> Merged[RunnerSettings]:
    """Return the settings with the layer that each came from."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if hidden := [name for name in given if name in _SECRETS]:
        raise Invalid(f"{hidden[0]} is a secret, and every user can read arguments: use a file or the environment")
    layers = [
        Layer("command line", merging.nest(given)),
        merging.ENVIRONMENT,
        _address(),
        Layer(str(file), files.read(file) if file else {}),
        # Empty sections, so that each missing required setting is named, not only its section.
        Layer("nowhere", {"server": {}, "runner": {"credentials": {}}}),
    ]
    return merging.merge(RunnerSettings, layers)


def _address() -> Layer:
    found = next((name for name in ADDRESSES if os.environ.get(name)), None)
    return Layer(f"environment {found}", {"server": {"url": os.environ[found]}} if found else {})
