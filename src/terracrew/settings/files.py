"""Reads a settings file, JSON or TOML, with the line of each value, and says in words of ours why it is not valid."""

import contextlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any, cast

from terracrew.settings.problems import kind_of
from terracrew.settings.trees import Layer, Path, Tree, leaves

_Keys = list[tuple[str, int]]
"""Keys with their lines."""
_JSON_WORDS = {
    "Expecting value": "a value is expected here: text in double quotes, a number, true, false, null, a list or an object",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here",
    "Expecting ':' delimiter": "a colon is expected here, between a key and its value",
    "Expecting ',' delimiter": "a comma or the closing bracket is expected here",
    "Extra data": "nothing may follow the closing bracket of the file",
    "Unterminated string starting at": "the text that begins here has no closing quote",
    "Invalid control character at": "text must not have a line break or a control character here: write \\n for a line break",
}
_TOML_WORDS = {
    "Cannot declare": "this table is there twice",
    "Cannot mutate immutable namespace": "this adds to a table that is already complete",
    "Cannot overwrite a value": "this key is there twice",
    "Expected '=' after a key in a key/value pair": "`=` is expected here, between a key and its value",
    "Expected newline or end of document after a statement": "a new line is expected here: one line has one key and its value",
    "Expected ']' at the end of a table declaration": "the name of a table ends with `]`",
    "Found invalid character": "this character is not allowed here",
    "Illegal character": "this character is not allowed here",
    "Invalid initial character for a key part": "a key is expected here",
    "Invalid statement": "a key, a table in brackets or a comment is expected here",
    "Invalid value": "a value is expected here: text in quotes, a number, true, false, a list or a table",
    "Unclosed array": "this list has no closing bracket",
    "Unclosed inline table": "this table has no closing bracket",
    "Unterminated string": "this text has no closing quote",
}
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_JSON_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_TOML_TABLE = re.compile(r"\s*\[\[?([^\]]+)\]")
_TOML_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


class _NotReadable(Exception):
    """Says why nothing of a file can be read."""

    def __init__(self, words: str, line: int | None = None) -> None:
        super().__init__(words)
        self.line = line


def layer(file: FilePath) -> Layer:
    """Return the values of a file with their lines. If it cannot be read, the layer has the reason and no values."""
    is_toml = file.suffix == ".toml"
    try:
        text = _text(file)
        values, twice = _read_toml(text) if is_toml else _read_json(text)
    except _NotReadable as error:
        place = f"{file}:{error.line}" if error.line else str(file)
        return Layer(str(file), {}, problems=[f"  {place}: {error}"], unread=[()])
    lines = _toml_lines(text) if is_toml else dict(_json_keys(text))
    return Layer(
        str(file),
        {name: value for name, value in values.items() if name != "$schema"},  # that key is for editors
        {path: f"{file}:{line}" for path, line in lines.items()},
        [
            f"  {file}:{line}: the key {name!r} is there twice; only one of its values could count"
            for name, line in twice
        ],
    )


def _text(file: FilePath) -> str:
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this cannot be the path of a file"
        raise _NotReadable(f"the settings file cannot be read: {reason}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _NotReadable("the settings file is not text in UTF-8", line) from None


def _read_toml(text: str) -> tuple[Tree, _Keys]:
    """Return the values of a TOML document. A key that is there twice ends the reading of TOML."""
    try:
        return tomllib.loads(text), []
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        found = _TOML_PLACE.search(message)
        has_line = found is not None and found[1] is not None
        column = f", column {found[2]}" if found is not None and has_line else ", at its end"
        line = int(found[1]) if found is not None and has_line else text.count("\n") + 1
        reason = message[: found.start()] if found is not None else message
        raise _NotReadable(f"this is not valid TOML{column}: {_words(reason, _TOML_WORDS)}", line) from None
    except (ValueError, RecursionError) as error:
        raise _of_size(error, "TOML") from None


def _read_json(text: str) -> tuple[Tree, _Keys]:
    """Return the values of a JSON document, and the keys that an object has twice: only one of their values could count."""
    twice: list[str] = []

    def read(pairs: list[tuple[str, Any]]) -> Tree:
        names = [name for name, _ in pairs]
        twice.extend(sorted({name for name in names if names.count(name) > 1}))
        return dict(pairs)

    try:
        content: Any = json.loads(text, object_pairs_hook=read)
    except json.JSONDecodeError as error:
        words = _words(error.msg, _JSON_WORDS)
        raise _NotReadable(f"this is not valid JSON, column {error.colno}: {words}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise _of_size(error, "JSON") from None
    if not isinstance(content, dict):
        raise _NotReadable(f"the file must be one JSON object with the settings, not {kind_of(content)}", 1)
    return cast("Tree", content), [(name, _second_line(text, name)) for name in twice]


def _second_line(text: str, name: str) -> int:
    lines = [line for path, line in _json_keys(text) if path[-1] == name]
    return lines[-1]


def _words(reason: str, known: dict[str, str]) -> str:
    """Return our words for a reason of the parser, or its own ones if we have none."""
    return next((words for start, words in known.items() if reason.startswith(start)), reason[:1].lower() + reason[1:])


def _of_size(error: Exception, kind: str) -> _NotReadable:
    what = "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it has too many digits"
    return _NotReadable(f"the settings file is not valid {kind}: {what}")


def _json_keys(text: str) -> Iterator[tuple[Path, int]]:
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


def _toml_lines(text: str) -> dict[Path, int]:
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
