"""Reads a settings file, JSON or TOML, and says what is wrong with it."""

import tomllib
from pathlib import Path
from typing import Any, cast

import msgspec

from terracrew.errors import Invalid

Tree = dict[str, Any]


def read(file: Path) -> Tree:
    """Return what the file holds, without the key `$schema`, which is for editors."""
    kind = "TOML" if file.suffix == ".toml" else "JSON"
    try:
        text = file.read_text()
        content: Any = tomllib.loads(text) if kind == "TOML" else msgspec.json.decode(text)
    except OSError as error:
        raise Invalid(f"the settings file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"the settings file {file} is not valid {kind}: {error}") from error
    if not isinstance(content, dict):
        raise Invalid(f"the settings file {file} does not hold an object")
    return {name: value for name, value in cast("Tree", content).items() if name != "$schema"}
