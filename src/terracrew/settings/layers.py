"""Merges the layers of settings (defaults, file, environment, command line) and reports each error with its origin."""

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, SettingsError
from pydantic_settings.sources import PydanticBaseSettingsSource

from terracrew.errors import Invalid
from terracrew.runner.config import RunnerConfig
from terracrew.settings.runner import RunnerSettings

PREFIX = "TERRACREW_"
ADDRESSES = ("TERRACREW_API_URL", "TERRACREW_URL")
"""The variables that set `server.url`; the first one that is set counts."""
_SECRETS = ("runner.credentials.client_secret", "runner.credentials.worker_token")

Tree = dict[str, Any]


class _Layer(NamedTuple):
    place: str
    values: Tree


def load(file: Path | None = None, options: Mapping[str, Any] | None = None) -> RunnerConfig:
    """Read every layer. `options` has dotted names. Raises Invalid with all errors at once."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if hidden := [name for name in given if name in _SECRETS]:
        raise Invalid(f"{hidden[0]} is a secret, and every user can read arguments: use a file or the environment")
    layers = [
        _Layer("command line", _nest(given)),
        _Layer(PREFIX, {}),
        _address(),
        _Layer(str(file), _read(file) if file else {}),
        # Empty sections, so that each missing required setting is named, not only its section.
        _Layer("nowhere", {"server": {}, "runner": {"credentials": {}}}),
    ]
    try:
        config = _layered(layers)().config()
    except SettingsError as error:
        raise Invalid(f"an environment variable is not valid JSON: {error}") from error
    except ValidationError as error:
        problems = [_say(problem, layers) for problem in error.errors(include_url=False, include_input=False)]
        raise Invalid("\n".join(["the settings have errors:", *problems]), problems=problems) from None
    if file is None:
        return config
    # The file may hold the runner's credentials, so no module may read it.
    isolation = msgspec.structs.replace(config.isolation, private_paths=[str(file.absolute())])
    return msgspec.structs.replace(config, isolation=isolation)


def _layered(layers: list[_Layer]) -> Callable[[], RunnerSettings]:
    class Layered(RunnerSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (the library's signature)
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            environment = cast("EnvSettingsSource", env_settings)()
            layers[1] = _Layer(PREFIX, _with_unknown_sections(environment))
            return tuple(InitSettingsSource(settings_cls, layer.values) for layer in layers)

    return cast("Callable[[], RunnerSettings]", Layered)


def _with_unknown_sections(environment: Tree) -> Tree:
    """Add variables of unknown sections, which the library ignores, so that a misspelt section is reported."""
    for name, value in os.environ.items():
        section, nested, _ = name.removeprefix(PREFIX).lower().partition("__")
        if name.startswith(PREFIX) and nested and section not in RunnerSettings.model_fields:
            environment.setdefault(section, value)
    return environment


def _address() -> _Layer:
    found = next((name for name in ADDRESSES if os.environ.get(name)), None)
    return _Layer(f"environment {found}", {"server": {"url": os.environ[found]}} if found else {})


def _read(file: Path) -> Tree:
    try:
        text = file.read_text()
        content: Any = tomllib.loads(text) if file.suffix == ".toml" else msgspec.json.decode(text)
    except OSError as error:
        raise Invalid(f"the settings file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        kind = "TOML" if file.suffix == ".toml" else "JSON"
        raise Invalid(f"the settings file {file} is not valid {kind}: {error}") from error
    if not isinstance(content, dict):
        raise Invalid(f"the settings file {file} does not hold an object")
    tree = cast("Tree", content)
    return {name: value for name, value in tree.items() if name != "$schema"}


def _nest(given: Mapping[str, Any]) -> Tree:
    tree: Tree = {}
    for name, value in given.items():
        *sections, last = name.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return tree


def _say(problem: ErrorDetails, layers: Sequence[_Layer]) -> str:
    path = [part for part in problem["loc"] if isinstance(part, str)]
    name = ".".join(str(part) for part in problem["loc"])
    match problem["type"]:
        case "missing":
            return f"  {name}: is required (in the file, or as {PREFIX}{'__'.join(path).upper()})"
        case "extra_forbidden":
            return f"  {name} ({_place(path, layers)}): there is no such setting{_suggestion(path)}"
        case _:
            return f"  {name} ({_place(path, layers)}): {problem['msg'].removeprefix('Value error, ')}"


def _place(path: Sequence[str], layers: Sequence[_Layer]) -> str:
    """Return the highest layer that has this setting, which is where its value came from."""
    for place, tree in layers:
        found: Any = tree
        for part in path:
            if not isinstance(found, dict) or part not in found:
                break
            found = cast("Tree", found)[part]
        else:
            return f"environment {_variable(path)}" if place == PREFIX else place
    return "default"


def _variable(path: Sequence[str]) -> str:
    name = PREFIX + "__".join(path).upper()
    return name if name in os.environ else next((one for one in os.environ if one.upper().startswith(name)), name)


def _suggestion(path: Sequence[str]) -> str:
    model: type[BaseModel] = RunnerSettings
    for part in path[:-1]:
        field = model.model_fields.get(part)
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            return ""
        model = field.annotation
    near = difflib.get_close_matches(path[-1], model.model_fields, 1)
    return f"; did you mean {near[0]}?" if near else ""
