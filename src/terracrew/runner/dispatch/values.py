"""Reads values of dispatchers' settings from text. A ValueError says what is wrong, and the caller names the setting."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from terracrew.errors import Invalid

VARIABLE_PREFIX = "TERRACREW_JOB_DISPATCHER_DATA_"
_TRUE, _FALSE = ("true", "yes", "on", "1", "t", "y"), ("false", "no", "off", "0", "f", "n")
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.IGNORECASE | re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")
_ENGINE = re.compile(r"([a-z][a-z0-9-]*)[ =]([\w.+-]+)", re.ASCII)


def read(
    dispatcher: str, parsers: Mapping[str, Callable[[str], Any]], data: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that can be read, and what is wrong with the others, both by the name of the setting."""
    found: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for name, text in data.items():
        if (parser := parsers.get(name)) is None:
            wrong[name] = f"the dispatcher `{dispatcher}` has no such setting; it has {', '.join(sorted(parsers))}"
            continue
        try:
            found[name] = parser(text)
        except ValueError as error:
            wrong[name] = str(error)
    return found, wrong


def require_right(wrong: Mapping[str, str]) -> None:
    """Raise Invalid with everything that is wrong, each with the name of its variable."""
    if wrong:
        raise Invalid("; ".join(f"{VARIABLE_PREFIX}{name.upper()}: {said}" for name, said in wrong.items()))


def boolean(text: str) -> bool:
    if (word := text.strip().lower()) not in (*_TRUE, *_FALSE):
        raise ValueError(f"{text!r} is neither `true` nor `false`")
    return word in _TRUE


def image(text: str) -> str:
    if _IMAGE.fullmatch(text.strip()) is None:
        raise ValueError(f"{text!r} is not the name of an image such as `registry.example/terracrew-executor:1.0`")
    return text.strip()


def words(what: str, pattern: re.Pattern[str]) -> Callable[[str], list[str]]:
    """Return a function that reads words that are separated by commas."""

    def parser(text: str) -> list[str]:
        found = [word.strip() for word in text.split(",") if word.strip()]
        if wrong := [word for word in found if pattern.fullmatch(word) is None]:
            raise ValueError(f"{wrong[0]!r} is not {what}")
        return found

    return parser


variables = words("the name of an environment variable", _VARIABLE)


def seconds(text: str) -> float:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number of seconds")
    return float(text)


def engines(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in (word.strip() for word in text.split(",") if word.strip()):
        parts = _ENGINE.fullmatch(word)
        if parts is None:
            raise ValueError(f"{word!r} is not an engine and its version, such as `tofu 1.10.5`")
        found.setdefault(parts[1], []).append(parts[2])
    return found
