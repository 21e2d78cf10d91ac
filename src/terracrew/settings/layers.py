"""Reads the layers of a runner's settings: defaults, file, environment, command line, external settings."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from pydantic import SecretStr

from terracrew.runner.config import RunnerConfig
from terracrew.settings import combinations, files, merging, names, trees, variables
from terracrew.settings.external import layer as external_layer
from terracrew.settings.merging import Merged
from terracrew.settings.runner import RunnerProcessSettings
from terracrew.settings.trees import Layer, Tree

PREFIX = "TERRACREW_"
_DISPATCHER_DATA = "TERRACREW_JOB_DISPATCHER_DATA_"
_NAMED_DISPATCHERS, _DISPATCHER_SECRET = "job_dispatchers", ("data", "registry_password")
_LEVELS = ("logging", "log_level")


def load(
    file: Path | None = None, options: Mapping[str, Any] | None = None, flags: Mapping[str, str] | None = None
) -> RunnerConfig:
    """Read every layer. `options` has dotted names. Raises Invalid with all errors at once."""
    found = merged(file, options, flags)
    config = found.settings.config()
    # The file may hold the runner's credentials, and other files do, so no module may read them.
    private = [*([str(file.absolute())] if file else []), *found.external.private_files]
    return msgspec.structs.replace(
        config,
        isolation=msgspec.structs.replace(config.isolation, private_paths=private),
        secret_variables=list(found.external.secret_variables),
        reread_seconds=found.external.reread_seconds,
    )


def merged(
    file: Path | None = None, options: Mapping[str, Any] | None = None, flags: Mapping[str, str] | None = None
) -> Merged[RunnerProcessSettings]:
    """Return the settings with the layer that each came from. `flags` has the command's options by the settings' names."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    layers = [
        _without_secrets(merging.command_line(RunnerProcessSettings, given, flags or {})),
        merging.environment_layer(RunnerProcessSettings, PREFIX),
        _short_names(),
        files.layer(file) if file else Layer("file", {}),
    ]
    # Empty sections, so that each missing required setting is named, not only its section.
    sections = Layer("", {"server": {}, "runner": {"credentials": {}}})
    found, external = external_layer.above(RunnerProcessSettings, [*layers, sections])
    return merging.merge(
        RunnerProcessSettings, [_canonical(layer) for layer in found], PREFIX, combinations.check, external
    )


def _without_secrets(layer: Layer) -> Layer:
    """Refuse secrets on the command line. Their values go no further, so that no message can repeat them."""
    problems: list[str] = []
    found = trees.find(layer.values, (_NAMED_DISPATCHERS,))
    named = list(cast("Tree", found)) if isinstance(found, dict) else []
    dispatchers = [("job_dispatcher",), *((_NAMED_DISPATCHERS, name) for name in named)]
    for path in (*_secrets(), *((*dispatcher, *_DISPATCHER_SECRET) for dispatcher in dispatchers)):
        if trees.find(layer.values, path) is not None:
            name = ".".join(path)
            problems.append(
                f"  {name} ({layer.place_of(path)}): every user can read arguments: use a file or a variable"
            )
            trees.put(layer.values, path, "refused")
    return layer._replace(problems=problems)


def _secrets() -> list[trees.Path]:
    return [
        path
        for path, field in names.settings_of(RunnerProcessSettings)
        if any(kind.type is SecretStr for kind in names.kinds_of_field(field))
    ]


def _short_names() -> Layer:
    data = {
        name: ("job_dispatcher", "data", name.removeprefix(_DISPATCHER_DATA).lower())
        for name in sorted(os.environ)
        if name.startswith(_DISPATCHER_DATA) and name != _DISPATCHER_DATA
    }
    further = {name: path for name in sorted(os.environ) if (path := variables.of_dispatcher(name))}
    found = variables.read_short(names.short_names(RunnerProcessSettings) | data | further, os.environ)
    return Layer("environment", found.values, found.places)


def _canonical(layer: Layer) -> Layer:
    """Write categories of the log in lower case, and `Default` as it is documented, so that all layers have the same keys."""
    levels = trees.find(layer.values, _LEVELS)
    if not isinstance(levels, dict):
        return layer
    named = {_category(name): level for name, level in cast("Tree", levels).items()}
    values = {**layer.values, "logging": {**layer.values["logging"], "log_level": named}}
    places = {
        (*_LEVELS, _category(path[2])) if path[:2] == _LEVELS and len(path) == 3 else path: place
        for path, place in layer.places.items()
    }
    return layer._replace(values=values, places=places)


def _category(name: str) -> str:
    return "Default" if name.lower() == "default" else name.lower()
