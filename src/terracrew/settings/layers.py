"""Reads the layers of a runner's settings: defaults, file, environment, command line, external settings."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from terracrew.runner.config import RunnerConfig
from terracrew.settings import combinations, environment, files, merging, trees, variables
from terracrew.settings.external import layer as external_layer
from terracrew.settings.external.section import SECRETS as EXTERNAL_SECRETS
from terracrew.settings.layer import Layer
from terracrew.settings.merging import Merged
from terracrew.settings.runner import RunnerSettings
from terracrew.settings.trees import Tree

PREFIX = "TERRACREW_"
SHORT_NAMES = {
    "TERRACREW_API_URL": ("server", "url"),
    "TERRACREW_URL": ("server", "url"),
    "TERRACREW_RUNNER_PATH": ("runner", "path"),
    "TERRACREW_RUNNER_RELEASE_KEY": ("runner", "release_key"),
    "TERRACREW_SERVICE_ACCOUNT_PATH": ("runner", "credentials", "service_account_path"),
    "TERRACREW_CREDENTIAL_HELPER_CMD_PATH": ("runner", "credentials", "helper", "command"),
    "TERRACREW_CREDENTIAL_HELPER_CMD_ARGS": ("runner", "credentials", "helper", "args"),
    "TERRACREW_JOB_DISPATCHER_TYPE": ("job_dispatcher", "type"),
    "TERRACREW_JOB_DISPATCHER_ALLOW_IMAGES": ("job_dispatcher", "allow", "images"),
    "TERRACREW_JOB_DISPATCHER_ALLOW_MAX_MEMORY_MB": ("job_dispatcher", "allow", "max_memory_mb"),
    "TERRACREW_JOB_DISPATCHER_ALLOW_MAX_CPU": ("job_dispatcher", "allow", "max_cpu"),
    "TERRACREW_JOB_DISPATCHER_ALLOW_SERVICE_ACCOUNTS": ("job_dispatcher", "allow", "service_accounts"),
    "TERRACREW_SERVICE_DISCOVERY_HOST": ("server", "discovery_host"),
}
"""Variables with names of their own. A variable that is named after the setting overrides them."""
_DISPATCHER_DATA = "TERRACREW_JOB_DISPATCHER_DATA_"
_SECRETS = (
    ("runner", "credentials", "client_secret"),
    ("runner", "credentials", "worker_token"),
    *((external_layer.SECTION, *path) for path in EXTERNAL_SECRETS),
    ("job_dispatcher", "data", "registry_password"),
)
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
) -> Merged[RunnerSettings]:
    """Return the settings with the layer that each came from. `flags` has the command's options by the settings' names."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    layers = [
        _without_secrets(merging.command_line(RunnerSettings, given, flags or {})),
        merging.environment_layer(RunnerSettings, PREFIX),
        _short_names(),
        files.layer(file) if file else Layer("file", {}),
    ]
    # Empty sections, so that each missing required setting is named, not only its section.
    sections = Layer("", {"server": {}, "runner": {"credentials": {}}})
    found, external = external_layer.above(RunnerSettings, [*layers, sections])
    return merging.merge(RunnerSettings, [_canonical(layer) for layer in found], PREFIX, combinations.check, external)


def _without_secrets(layer: Layer) -> Layer:
    """Refuse secrets on the command line. Their values go no further, so that no message can repeat them."""
    problems: list[str] = []
    named = trees.find(layer.values, (_NAMED_DISPATCHERS,))
    names = list(cast("Tree", named)) if isinstance(named, dict) else []
    for path in (*_SECRETS, *((_NAMED_DISPATCHERS, name, *_DISPATCHER_SECRET) for name in names)):
        if trees.find(layer.values, path) is not None:
            name = ".".join(path)
            problems.append(
                f"  {name} ({layer.place_of(path)}): every user can read arguments: use a file or a variable"
            )
            trees.put(layer.values, path, "refused")
    return layer._replace(problems=problems)


def _short_names() -> Layer:
    data = {
        name: ("job_dispatcher", "data", name.removeprefix(_DISPATCHER_DATA).lower())
        for name in sorted(os.environ)
        if name.startswith(_DISPATCHER_DATA) and name != _DISPATCHER_DATA
    }
    further = {name: path for name in sorted(os.environ) if (path := variables.of_dispatcher(name))}
    found = environment.read_short(SHORT_NAMES | data | further, os.environ)
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
