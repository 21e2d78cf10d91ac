"""Reads values of dispatchers' settings from text. A ValueError says what is wrong, and the caller names the setting."""

import re
from collections.abc import Callable

_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.IGNORECASE | re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")
_ENGINE = re.compile(r"([a-z][a-z0-9-]*)[ =]([\w.+-]+)", re.ASCII)


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
