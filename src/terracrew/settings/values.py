"""Types of settings that runner and server share: sections, directories, lists in one variable, and checks of ours."""

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from terracrew import errors

_SEPARATOR = re.compile(r"[\s,]+")


class SettingsSection(BaseModel):
    """A group of settings. It refuses unknown keys, and its errors repeat no value, because values may be secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)


def checked(check: Callable[[str], str]) -> AfterValidator:
    """Turn a check of ours into one that raises what the settings library expects."""

    def run(text: str) -> str:
        try:
            return check(text)
        except errors.Invalid as error:
            raise ValueError(error.message) from error

    return AfterValidator(run)


def _is_path(text: str) -> str:
    """Refuse a path that no file can have, or that begins with the home directory of a user who does not exist."""
    if not text.isprintable():
        raise ValueError(f"{text!r} has a character that cannot be printed: no path of Terracrew may have one")
    if text.startswith("~") and os.path.expanduser(text) == text:
        raise ValueError(f"{text!r} begins with the home directory of a user who does not exist")
    return text


def absolute(text: str) -> str:
    """Return a path with `~` expanded. It must be absolute, because a server or runner may start in any directory."""
    path = os.path.expanduser(_is_path(text))
    if not os.path.isabs(path):
        raise ValueError(f"{text!r} is not an absolute path: begin it with / or ~/")
    return os.path.normpath(path)


def _is_not_empty(value: Any) -> Any:
    if value == "":
        raise ValueError("must not be empty")
    return value


def _expanded(path: Path) -> Path:
    return Path(os.path.expanduser(_is_path(str(path))))


def _absolute_path(path: Path) -> Path:
    return Path(absolute(str(path)))


def _split_paths(value: Any) -> Any:
    """Split one text into several paths, which are separated as in PATH or given as a JSON list."""
    return _split(value, lambda text: text.split(os.pathsep))


def _split_words(value: Any) -> Any:
    """Split one text into several words, which are separated by spaces or commas or given as a JSON list."""
    return _split(value, _SEPARATOR.split)


def _split_arguments(value: Any) -> Any:
    """Split one text into the arguments of a program. Quotes keep an argument together as in a shell, and nothing else is special."""
    return _split(value, shlex.split)


def _split(value: Any, split: Callable[[str], list[str]]) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("it begins with [ and is not a valid JSON list") from None
    try:
        return [part for part in split(value) if part]
    except ValueError as error:  # a quote that nothing closes
        raise ValueError(f"it is not a list of arguments: {error}") from None


FilePath = Annotated[Path, BeforeValidator(_is_not_empty), AfterValidator(_expanded)]
"""A path that may be relative to the directory in which the process was started."""
FilePaths = Annotated[list[Annotated[Path, AfterValidator(_absolute_path)]], BeforeValidator(_split_paths)]
Directory = Annotated[str, AfterValidator(absolute)]
Directories = Annotated[list[Directory], BeforeValidator(_split_paths)]
split_words = BeforeValidator(_split_words)
Words = Annotated[list[str], split_words]
Arguments = Annotated[list[str], BeforeValidator(_split_arguments)]
