"""Makes the highest layer of settings: the values that references of the other layers point to."""

from collections.abc import Sequence
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from terracrew.client import address
from terracrew.settings import names, trees, variables
from terracrew.settings.external import references
from terracrew.settings.external.references import Reference
from terracrew.settings.external.section import External, ExternalFacts
from terracrew.settings.trees import Layer, Path, Tree
from terracrew.settings.values import SecretFile

SECTION = "external"
_REFERENCES = (SECTION, "settings")
_WORDS_FOR_ITSELF = "the settings of external settings cannot be external"


def above(model: type[BaseModel], layers: Sequence[Layer]) -> tuple[list[Layer], ExternalFacts]:
    """Return the layers, from high to low, with that of the external settings above them."""
    layers = [_flat(layer) for layer in layers]
    values: Tree = {}
    for layer in reversed(layers):
        values = trees.merge(values, layer.values)
    given: Any = values.get(SECTION)
    if not isinstance(given, dict) or not given:
        return layers, ExternalFacts()
    try:
        section = External.model_validate(given)
    except ValidationError:
        # The model of all settings has the same section, so that every mistake in it is reported there.
        return [_unread(model, cast("Tree", given)), *layers], ExternalFacts()
    made, facts = _read(model, section, layers)
    return [made, *layers], facts


def _read(model: type[BaseModel], section: External, layers: Sequence[Layer]) -> tuple[Layer, ExternalFacts]:
    from terracrew.settings.external import reading  # only who has references pays for it

    wanted = {names.folded(model, name.split(".")): references.parse(text) for name, text in section.settings.items()}
    places = {names.folded(model, name.split(".")): _place(name, layers) for name in section.settings}
    own = [path for path in wanted if path[0] == SECTION]
    problems = [f"  {'.'.join(path)} ({places[path]}): {_WORDS_FOR_ITSELF}" for path in own]
    missing = _missing(section, {each.scheme for each in wanted.values()})
    problems += [f"  {'.'.join(path)}: {words}" for path, words, _ in missing]
    incomplete = {scheme for _, _, schemes in missing for scheme in schemes}
    readable = {
        path: each
        for path, each in wanted.items()
        if each.scheme not in incomplete and path not in own and names.is_known(model, path)
    }
    found = reading.read(section, readable)
    values: Tree = {}
    unread: list[Path] = [path for path in wanted if path not in found.values and names.is_known(model, path)]
    for path, words in found.failures.items():
        problems.append(f"  {'.'.join(path)} ({places[path]}): {wanted[path]}: {words}")
    for path in wanted:
        if not names.is_known(model, path) and path not in own:
            trees.put(values, path, "")  # the model reports that there is no such setting
    for path, text in found.values.items():
        value = _converted(model, path, text)
        if value is None:
            problems.append(f"  {'.'.join(path)} ({places[path]}): {wanted[path]}: a section must be a JSON object")
            unread.append(path)
        else:
            trees.put(values, path, value)
    shown = {path: f"{each}, by {places[path]}" for path, each in wanted.items()}
    layer = Layer("external settings", values, shown, problems, unread, is_external=True)
    return layer, ExternalFacts(_files(section, wanted.values()), _variables(wanted.values()), found.reread_seconds)


def _flat(layer: Layer) -> Layer:
    """Return a layer whose references have dotted names as keys. TOML makes sections of `external.settings.runner.capacity`."""
    given = trees.find(layer.values, _REFERENCES)
    if not isinstance(given, dict):
        return layer
    flat = {".".join(path): value for path, value in trees.leaves(cast("Tree", given))}
    values = {**layer.values, SECTION: {**layer.values[SECTION], "settings": flat}}
    count = len(_REFERENCES)
    places = {
        (*_REFERENCES, ".".join(path[count:])) if path[:count] == _REFERENCES and len(path) > count else path: place
        for path, place in layer.places.items()
    }
    return layer._replace(values=values, places=places)


def _place(name: str, layers: Sequence[Layer]) -> str:
    path = (*_REFERENCES, name)
    return next((each.place_of(path) for each in layers if trees.find(each.values, path) is not None), SECTION)


def _unread(model: type[BaseModel], given: Tree) -> Layer:
    """Return a layer without values for references that were not read, so that nobody misses their settings."""
    found = given.get("settings")
    named = cast("Tree", found) if isinstance(found, dict) else {}
    return Layer(
        "external settings", {}, unread=[names.folded(model, name.split(".")) for name in named], is_external=True
    )


def _missing(section: External, schemes: set[str]) -> list[tuple[Path, str, set[str]]]:
    """Return the settings of stores that are needed, with words, and the schemes of the references that need them."""
    from terracrew.settings.external.stores import azure, vault

    found: list[tuple[Path, str, set[str]]] = []
    if references.VAULT in schemes:
        words = f"is required by references to Vault with auth = `{section.vault.auth}`"
        found += [((SECTION, "vault", name), words, {references.VAULT}) for name in vault.missing(section.vault)]
        url = section.vault.address or ""
        if url.startswith("http:") and not address.is_loopback(url) and not section.vault.allow_plain_http:
            words = (
                "plain http to another machine exposes every secret: use https, or set external.vault.allow_plain_http"
            )
            found.append(((SECTION, "vault", "address"), words, {references.VAULT}))
    if references.AZURE in schemes:
        words = f"is required by references to Azure with auth = `{section.azure.auth}`"
        found += [((SECTION, "azure", name), words, {references.AZURE}) for name in azure.missing(section.azure)]
    return found


def _converted(model: type[BaseModel], path: Path, text: str) -> Any:
    """Return the value of a setting; that of a section is an object in JSON, as in a variable."""
    if names.is_section(model, path) or names.is_mapping(model, path):
        return variables.json_object(text)
    return text


def _files(section: External, wanted: "Sequence[Reference] | Any") -> tuple[str, ...]:
    named = [getattr(getattr(section, store), name) for (store, name), _ in names.marked(External, SecretFile)]
    return tuple(
        dict.fromkeys([*(each.target for each in wanted if each.scheme == references.FILE), *filter(None, named)])
    )


def _variables(wanted: "Sequence[Reference] | Any") -> tuple[str, ...]:
    return tuple(each.target for each in wanted if each.scheme == references.VARIABLE)
