"""Reads a settings file, JSON or TOML, and says what is wrong with it."""

import json
import tomllib
from pathlib import Path
from typing import Any, cast

from terracrew.errors import Invalid
from terracrew.settings.lines import json_lines, toml_lines
from terracrew.settings.merging import Layer
from terracrew.settings.trees import Tree


def layer(file: Path) -> Layer:
    """Return the values of a file with their lines. If it cannot be read, the layer has the reason and no values."""
    try:
        text = _text(file)
        values = _parsed(file, text)
    except Invalid as error:
        return Layer(str(file), {}, problems=[f"  {error.message}"], is_incomplete=True)
    lines = toml_lines(text) if _is_toml(file) else json_lines(text)
    return Layer(str(file), values, {path: f"{file}:{line}" for path, line in lines.items()})


def read(file: Path) -> Tree:
    """Return the values of a file. Raises Invalid if it cannot be read."""
    return _parsed(file, _text(file))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Invalid(f"the settings file {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"the settings file {file} is not text in UTF-8: {error}") from error


def _parsed(file: Path, text: str) -> Tree:
    """Return what the text holds, without the key `$schema`, which is for editors."""
    try:
        content: Any = tomllib.loads(text) if _is_toml(file) else json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if _is_toml(file) else "JSON"
        raise Invalid(f"the settings file {file} is not valid {kind}: {error}") from error
    if not isinstance(content, dict):
        raise Invalid(f"the settings file {file} does not hold an object")
    return {name: value for name, value in cast("Tree", content).items() if name != "$schema"}


def _is_toml(file: Path) -> bool:
    return file.suffix == ".toml"


def _once(pairs: list[tuple[str, Any]]) -> Tree:
    """Refuse a key that an object has twice, as TOML does: only one of its values could count."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in made if names.count(name) > 1)!r} is there twice")
    return made
