"""Reads the text of a settings file and says in words of ours, with a line, why it is not valid JSON or TOML."""

import json as json_library
import re
import tomllib
from typing import Any, cast

from terracrew.settings.lines import json_keys
from terracrew.settings.problems.words import kind_of
from terracrew.settings.trees import Tree

Keys = list[tuple[str, int]]
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


class NotReadable(Exception):
    """Says why nothing of a file can be read."""

    def __init__(self, words: str, line: int | None = None) -> None:
        super().__init__(words)
        self.line = line


def toml(text: str) -> tuple[Tree, Keys]:
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
        raise NotReadable(f"this is not valid TOML{column}: {_words(reason, _TOML_WORDS)}", line) from None
    except (ValueError, RecursionError) as error:
        raise _of_size(error, "TOML") from None


def json(text: str) -> tuple[Tree, Keys]:
    """Return the values of a JSON document, and the keys that an object has twice: only one of their values could count."""
    twice: list[str] = []

    def read(pairs: list[tuple[str, Any]]) -> Tree:
        names = [name for name, _ in pairs]
        twice.extend(sorted({name for name in names if names.count(name) > 1}))
        return dict(pairs)

    try:
        content: Any = json_library.loads(text, object_pairs_hook=read)
    except json_library.JSONDecodeError as error:
        words = _words(error.msg, _JSON_WORDS)
        raise NotReadable(f"this is not valid JSON, column {error.colno}: {words}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise _of_size(error, "JSON") from None
    if not isinstance(content, dict):
        raise NotReadable(f"the file must be one JSON object with the settings, not {kind_of(content)}", 1)
    return cast("Tree", content), [(name, _second_line(text, name)) for name in twice]


def _second_line(text: str, name: str) -> int:
    lines = [line for path, line in json_keys(text) if path[-1] == name]
    return lines[-1]


def _words(reason: str, known: dict[str, str]) -> str:
    """Return our words for a reason of the parser, or its own ones if we have none."""
    return next((words for start, words in known.items() if reason.startswith(start)), reason[:1].lower() + reason[1:])


def _of_size(error: Exception, kind: str) -> NotReadable:
    what = "it is nested too deeply" if isinstance(error, RecursionError) else "a number in it has too many digits"
    return NotReadable(f"the settings file is not valid {kind}: {what}")
