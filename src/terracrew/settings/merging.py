"""Merges layers of settings into a model, remembers where each value came from, and reports all errors at once."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from terracrew.errors import Invalid
from terracrew.settings import names, problems, trees, variables
from terracrew.settings.external.section import ExternalFacts
from terracrew.settings.trees import Layer, Path, Tree

M = TypeVar("M", bound=BaseModel)


class Combination(NamedTuple):
    """Settings that do not fit together, or one of several that is missing."""

    path: Path
    words: str
    missing: Sequence[Path] = ()
    """The settings whose absence is the mistake. Nothing is reported if one of them may be in a part that could not be read."""


class Merged(NamedTuple, Generic[M]):
    settings: M
    layers: Sequence[Layer]
    external: ExternalFacts = ExternalFacts()

    def origin(self, path: Sequence[str]) -> str:
        """Return where the value of this setting came from: the highest layer that has it, or `default`."""
        return next((place for place, _ in self.given(path)), "default")

    def given(self, path: Sequence[str]) -> list[tuple[str, Any]]:
        """Return the place and the value of this setting in each layer that has it; the first one is effective."""
        found = [(layer.place_of(path), trees.find(layer.values, path)) for layer in self.layers]
        return [(place, value) for place, value in found if value is not None]


def merge(
    model: type[M],
    layers: Sequence[Layer],
    prefix: str,
    check: Callable[[Tree], Iterable[Combination]] = lambda _: (),
    external: ExternalFacts = ExternalFacts(),  # noqa: B008 - frozen
) -> Merged[M]:
    """Merge the layers, from high to low. Raises Invalid with all errors at once, unknown variables included.

    `check` finds values that do not fit together. It gets all of them unchecked, so that its errors are reported with the rest.
    """
    layers = [_with_sections(model, layer) for layer in layers]
    values: Tree = {}
    for layer in reversed(layers):
        values = trees.merge(values, layer.values)
    wrong = [problem for layer in layers for problem in layer.problems]
    settings = None
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        wrong += [
            _say(problem, model, layers, prefix)
            for each in error.errors(include_url=False)
            for problem in (each, *problems.beside(model, values, each))
            if problem["type"] != "missing" or not _may_be_unread(layers, _keys(model, problem))
        ]
    wrong += [
        _located(each.path, _without_value(each, values, layers), layers)
        for each in check(values)
        if not any(_may_be_unread(layers, path) for path in each.missing)
    ]
    wrong += [f"  {name} (environment): {words}" for name, words in variables.unknown(os.environ)]
    if wrong or settings is None:
        raise Invalid("\n".join(["the settings have errors:", *wrong]), problems=wrong) from None
    return Merged(settings, layers, external)


def environment_layer(model: type[BaseModel], prefix: str, *, ignores_empty: bool = False) -> Layer:
    """Read the variables that are named after the settings of a model."""
    found = variables.read(model, prefix, os.environ, ignores_empty=ignores_empty)
    return Layer("environment", found.values, found.places, found.problems, found.unread)


def command_line(model: type[BaseModel], given: Mapping[str, Any], options: Mapping[str, str]) -> Layer:
    """Return the layer of values that were given as arguments, by dotted names. `options` has the options of some of them."""
    values: Tree = {}
    places: dict[Path, str] = {}
    for name, value in given.items():
        path = names.folded(model, name.split("."))
        trees.put(values, path, value)
        places[path] = f"option {options.get(name, f'--set {name}')}"
    return Layer("command line", values, places)


def _with_sections(model: type[BaseModel], layer: Layer) -> Layer:
    """Return a layer without values that are where a section must be; each of them is a problem of the layer."""
    wrong = list(problems.misplaced(model, layer.values))
    values = layer.values
    for path, _ in wrong:
        values = problems.without(values, path)
    found = [
        f"  {'.'.join(path)} ({layer.place_of(path)}): must be {problems.SECTION}, not {problems.kind_of(value)}"
        for path, value in wrong
    ]
    unread = [*layer.unread, *(path for path, _ in wrong)]
    return layer._replace(values=values, problems=[*layer.problems, *found], unread=unread)


def _may_be_unread(layers: Sequence[Layer], path: Sequence[str]) -> bool:
    """Return whether a setting, or a part of a section, may be in a part that could not be read."""
    wanted = tuple(path)
    return any(
        wanted[: len(unread)] == unread or unread[: len(wanted)] == wanted
        for layer in layers
        for unread in layer.unread
    )


def _keys(model: type[BaseModel], problem: ErrorDetails) -> list[str]:
    return [part for part in names.setting_path(model, problem["loc"]) if isinstance(part, str)]


def _say(problem: ErrorDetails, model: type[BaseModel], layers: Sequence[Layer], prefix: str) -> str:
    path = names.setting_path(model, problem["loc"])
    name = ".".join(str(part) for part in path)
    keys = _keys(model, problem)
    match problem["type"]:
        case "missing":
            return f"  {name}: is required (in the file{_or_variable(prefix, keys)})"
        case "extra_forbidden":
            near = names.nearest_setting(model, keys)
            return _located(path, f"there is no such setting{near}", layers)
        case "union_tag_not_found":
            return _located(path, f"is required: {problems.listed(names.tagged(model, keys))}", layers, ".kind")
        case "union_tag_invalid":
            named = problems.listed(names.tagged(model, keys))
            return _located([*path, "kind"], f"must be {named}", layers)
        case _ if _is_external(keys, layers):
            return _located(path, f"the value is not valid; it must be {problems.allowed(model, path)}", layers)
        case _:
            return _located(path, problems.describe(problem, problems.allowed(model, path)), layers)


def _is_external(path: Sequence[str], layers: Sequence[Layer]) -> bool:
    """Return whether the value that counts, or a part of it, comes from a vault, so that no message may repeat it."""
    return any(layer.is_external and trees.find(layer.values, path) is not None for layer in layers)


def _without_value(found: Combination, values: Tree, layers: Sequence[Layer]) -> str:
    value = trees.find(values, found.path)
    is_repeated = isinstance(value, str) and (value in found.words or repr(value)[1:-1] in found.words)
    hides = is_repeated and _is_external(found.path, layers)
    return "the value does not fit to the other settings" if hides else found.words


def _located(path: Sequence[str | int], words: str, layers: Sequence[Layer], below: str = "") -> str:
    keys = [part for part in path if isinstance(part, str)]
    place = next((layer.place_of(keys) for layer in layers if trees.find(layer.values, keys) is not None), "")
    return f"  {'.'.join(str(part) for part in path)}{below}{f' ({place})' if place else ''}: {words}"


def _or_variable(prefix: str, path: Sequence[str]) -> str:
    name = variables.variable(prefix, tuple(path))
    return f", or as {name}" if variables.is_known(name) else ""
