"""Reads the settings of a dispatcher from text (`job_dispatcher.data`). A parser raises ValueError with what is wrong with a value."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

from terracrew.errors import Invalid

S = TypeVar("S")
VARIABLE_PREFIX = "TERRACREW_JOB_DISPATCHER_DATA_"
_TRUE, _FALSE = ("true", "yes", "on", "1", "t", "y"), ("false", "no", "off", "0", "f", "n")
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.IGNORECASE | re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")
_ENGINE = re.compile(r"([a-z][a-z0-9-]*)[ =]([\w.+-]+)", re.ASCII)


class SettingsReader(Generic[S]):
    """The settings of one dispatcher: a parser for each, by the name of its variable without the prefix."""

    def __init__(
        self,
        dispatcher: str,
        settings: Callable[..., S],
        parsers: Mapping[str, Callable[[str], Any]],
        check: Callable[[Mapping[str, str], Mapping[str, Any]], Mapping[str, str]],
        fields: Mapping[str, str] | None = None,
    ) -> None:
        """`check` gets the texts and the values that could be read, and returns what is wrong with them together.

        `fields` has the fields of the settings that have other names than their variables.
        """
        self._dispatcher, self._settings, self._parsers, self._check = dispatcher, settings, parsers, check
        self._fields = fields or {}

    def parse(self, data: Mapping[str, str]) -> S:
        """Return the settings. Raises Invalid with everything that is wrong, each with the name of its variable."""
        found, wrong = self._read(data)
        if wrong:
            raise Invalid("; ".join(f"{VARIABLE_PREFIX}{name.upper()}: {said}" for name, said in wrong.items()))
        return self._settings(**{self._fields.get(name, name): value for name, value in found.items()})

    def problems(self, data: Mapping[str, str]) -> dict[str, str]:
        """Return what is wrong, by the name of the setting."""
        return self._read(data)[1]

    def _read(self, data: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        found: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for name, text in data.items():
            if (parser := self._parsers.get(name)) is None:
                names = ", ".join(sorted(self._parsers))
                wrong[name] = f"the dispatcher `{self._dispatcher}` has no such setting; it has {names}"
                continue
            try:
                found[name] = parser(text)
            except ValueError as error:
                wrong[name] = str(error)
        for name, said in self._check(data, found).items():
            wrong.setdefault(name, said)
        return found, wrong


def text(value: str) -> str:
    if not value.strip():
        raise ValueError("it is empty")
    return value.strip()


def matching(what: str, pattern: re.Pattern[str]) -> Callable[[str], str]:
    def parser(text: str) -> str:
        if pattern.fullmatch(text.strip()) is None:
            raise ValueError(f"{text!r} is not {what}")
        return text.strip()

    return parser


def one_of(choices: Collection[str]) -> Callable[[str], str]:
    def parser(text: str) -> str:
        if text.strip() not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text.strip()

    return parser


def boolean(text: str) -> bool:
    if (word := text.strip().lower()) not in (*_TRUE, *_FALSE):
        raise ValueError(f"{text!r} is neither `true` nor `false`")
    return word in _TRUE


image = matching("the name of an image such as `registry.example/terracrew-executor:1.0`", _IMAGE)


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
