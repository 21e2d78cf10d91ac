"""Merges layers of settings into a model, remembers where each value came from, and reports all errors at once."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, SettingsError
from pydantic_settings.sources import PydanticBaseSettingsSource

from terracrew.errors import Invalid
from terracrew.settings import suggestions, variables
from terracrew.settings.files import Tree

M = TypeVar("M", bound=BaseSettings)


class Layer(NamedTuple):
    place: str
    """Where the values are, in words: `command line`, `environment TERRACREW_URL` or the path of a file."""
    values: Tree


ENVIRONMENT = Layer("environment", {})
"""Stands for all variables of the model; `merge` reads them."""


class Merged(NamedTuple, Generic[M]):
    settings: M
    layers: Sequence[Layer]
    prefix: str

    def origin(self, path: Sequence[str]) -> str:
        """Return where the value of this setting came from: the highest layer that has it, or `default`."""
        return _place(path, self.layers, self.prefix)


def merge(model: type[M], layers: Sequence[Layer]) -> Merged[M]:
    """Merge the layers, from high to low. Raises Invalid with all errors at once, unknown variables included."""
    merged = list(layers)
    prefix = model.model_config.get("env_prefix", "")
    problems: list[str] = []
    try:
        settings = _layered(model, merged)()
    except SettingsError as error:
        raise Invalid(f"an environment variable is not valid JSON: {error}") from error
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [_say(problem, model, merged, prefix) for problem in found]
        settings = None
    problems += [f"  {name} (environment): {words}" for name, words in variables.unknown(os.environ)]
    if problems or settings is None:
        raise Invalid("\n".join(["the settings have errors:", *problems]), problems=problems) from None
    return Merged(settings, merged, prefix)


def nest(given: Mapping[str, Any]) -> Tree:
    """Return dotted names with their values as a tree."""
    tree: Tree = {}
    for name, value in given.items():
        *sections, last = name.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return tree


def variable(prefix: str, path: Sequence[str]) -> str:
    """Return the name of the variable that sets this setting."""
    return prefix + "__".join(path).upper()


def _layered(model: type[M], layers: list[Layer]) -> Callable[[], M]:
    class Layered(model):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,  # noqa: ARG003  (the library's signature)
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            environment = cast("EnvSettingsSource", env_settings)
            # Unknown variables are reported by their names, so the model does not see what they would set.
            unread = {name for name, _ in variables.unknown(os.environ)} | variables.service_links(os.environ)
            unread = {name.lower() for name in unread}
            environment.env_vars = {
                name: value for name, value in environment.env_vars.items() if name.lower() not in unread
            }
            at = layers.index(ENVIRONMENT)
            layers[at] = Layer(ENVIRONMENT.place, environment())
            return tuple(InitSettingsSource(settings_cls, layer.values) for layer in layers)

    return cast("Callable[[], M]", Layered)


def _say(problem: ErrorDetails, model: type[BaseSettings], layers: Sequence[Layer], prefix: str) -> str:
    path = suggestions.setting_path(model, problem["loc"])
    name = ".".join(str(part) for part in path)
    keys = [part for part in path if isinstance(part, str)]
    match problem["type"]:
        case "missing":
            return f"  {name}: is required (in the file{_or_variable(prefix, keys)})"
        case "extra_forbidden":
            near = suggestions.nearest_setting(model, keys)
            return f"  {name} ({_place(keys, layers, prefix)}): there is no such setting{near}"
        case "union_tag_not_found":
            return f"  {name}.kind ({_place(keys, layers, prefix)}): is required: {suggestions.tags(model, keys)}"
        case "union_tag_invalid":
            return f"  {name}.kind ({_place(keys, layers, prefix)}): should be {suggestions.tags(model, keys)}"
        case _:
            words = problem["msg"].removeprefix("Value error, ")
            return f"  {name} ({_place(keys, layers, prefix)}): {words}" if name else f"  {words}"


def _place(path: Sequence[str], layers: Sequence[Layer], prefix: str) -> str:
    for place, tree in layers:
        found: Any = tree
        for part in path:
            if not isinstance(found, dict) or part not in found:
                break
            found = cast("Tree", found)[part]
        else:
            return f"environment {_variable(path, prefix)}" if place == ENVIRONMENT.place else place
    return "default"


def _variable(path: Sequence[str], prefix: str) -> str:
    name = variable(prefix, path)
    return name if name in os.environ else next((one for one in os.environ if one.upper().startswith(name)), name)


def _or_variable(prefix: str, path: Sequence[str]) -> str:
    name = variable(prefix, path)
    return f", or as {name}" if variables.is_known(name) else ""
