"""Finds the lines of the keys in a settings file, for error messages. The parsers themselves do not report them."""

import contextlib
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from terracrew.settings.trees import Path, leaves

_JSON_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_TOML_TABLE = re.compile(r"\s*\[\[?([^\]]+)\]")
_TOML_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def json_lines(text: str) -> dict[Path, int]:
    """Return the line of each key of a valid JSON document. Keys of objects in lists count as keys of the list."""
    return dict(json_keys(text))


def json_keys(text: str) -> Iterator[tuple[Path, int]]:
    """Yield each key with its line, also a key that an object has twice."""
    path: list[str] = []
    brackets: list[tuple[str, bool]] = []
    """The open brackets, each with whether a key of `path` belongs to it."""
    key: str | None = None
    is_key_next = False
    line, end = 1, 0
    for match in _JSON_MARK.finditer(text):
        line, end = line + text.count("\n", end, match.start()), match.start()
        mark = match[0]
        if mark in ("{", "["):
            brackets.append((mark, key is not None))
            path += [key] if key is not None else []
            key, is_key_next = None, mark == "{"
        elif mark in ("}", "]"):
            if brackets.pop()[1]:
                path.pop()
            key = None
        elif mark == ",":
            key, is_key_next = None, brackets[-1][0] == "{"
        elif is_key_next:
            key, is_key_next = str(json.loads(mark)), False
            yield (*path, key), line


def toml_lines(text: str) -> dict[Path, int]:
    """Return the lines of the tables and keys of a TOML document. Keys of inline tables have the line of the table."""
    found: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TOML_TABLE.match(line):
            table = _dotted(match[1])
            found.setdefault(table, number)
        elif match := _TOML_KEY.match(line):
            found.setdefault((*table, *_dotted(match[1])), number)
    return found


def _dotted(key: str) -> Path:
    """Return the parts of a key as TOML has it: `a."b.c"`."""
    with contextlib.suppress(tomllib.TOMLDecodeError):
        parsed: dict[str, Any] = tomllib.loads(f"{key} = 0")
        return next(path for path, _ in leaves(parsed))
    return (key,)
