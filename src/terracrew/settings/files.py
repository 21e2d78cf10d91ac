"""Reads a settings file, JSON or TOML, with the line of each value."""

from pathlib import Path

from terracrew.settings.layer import Layer
from terracrew.settings.lines import json_lines, toml_lines
from terracrew.settings.problems import syntax


def layer(file: Path) -> Layer:
    """Return the values of a file with their lines. If it cannot be read, the layer has the reason and no values."""
    is_toml = file.suffix == ".toml"
    try:
        text = _text(file)
        values, twice = syntax.toml(text) if is_toml else syntax.json(text)
    except syntax.NotReadable as error:
        place = f"{file}:{error.line}" if error.line else str(file)
        return Layer(str(file), {}, problems=[f"  {place}: {error}"], unread=[()])
    lines = toml_lines(text) if is_toml else json_lines(text)
    return Layer(
        str(file),
        {name: value for name, value in values.items() if name != "$schema"},  # that key is for editors
        {path: f"{file}:{line}" for path, line in lines.items()},
        [
            f"  {file}:{line}: the key {name!r} is there twice; only one of its values could count"
            for name, line in twice
        ],
    )


def _text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this cannot be the path of a file"
        raise syntax.NotReadable(f"the settings file cannot be read: {reason}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise syntax.NotReadable("the settings file is not text in UTF-8", line) from None
