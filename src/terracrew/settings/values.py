"""Types of settings, with checks of ours: sections, paths, lists in one variable, and what is noted on a setting."""

import json
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from terracrew import errors
from terracrew.protocol import limits

_SEPARATOR = re.compile(r"[\s,]+")

Level = Literal["Trace", "Debug", "Information", "Warning", "Error", "Critical", "None"]
_LEVELS = {"trace", "debug", "information", "warning", "error", "critical", "none"}
_PATH = re.compile(rf"{limits.PATH_NAME}(/{limits.PATH_NAME}){{0,{limits.MAX_PATH_LEVELS - 1}}}")


@dataclass(frozen=True)
class Shown:
    """Notes that the text of a setting is no secret and may be printed; every other text is hidden."""

    keys: frozenset[str] = frozenset()
    """Of a mapping: the keys whose values may be printed; none for all of them."""

    def covers(self, key: str | int) -> bool:
        return not self.keys or key in self.keys


@dataclass(frozen=True)
class VariableNames:
    """Notes the variables that also set a setting of a runner. Of several, the first one wins."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SecretFile:
    """Notes that a setting is the path of a file with a secret, which no job may read."""


@dataclass(frozen=True)
class Option:
    """Notes how the option of a setting of the server looks."""

    metavar: str = ""
    """What stands for the value in the help; by default what the name ends with, or `N`."""
    alias: str = ""
    is_in_up: bool = False
    """Whether `terracrew up` has it, too."""


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


def _canonical(level: Any) -> Any:
    return level.capitalize() if isinstance(level, str) and level.lower() in _LEVELS else level


def _instance(text: str) -> str:
    if not limits.is_instance_name(text):
        raise ValueError(f"{text!r} has a character that cannot be printed, or only spaces")
    return text


def _cgroup(text: str) -> str:
    if text not in ("auto", "off") and not text.startswith(("/", "~")):
        raise ValueError(f"{text!r} is not `auto`, `off` or the absolute path of a cgroup")
    return text if text in ("auto", "off") else absolute(text)


def _tree_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a path: use names of lowercase letters, digits and hyphens with `/` between them, "
            "such as `spectre/spaceship/impatient`"
        )
    return text


SHOWN = Shown()
FilePath = Annotated[Path, BeforeValidator(_is_not_empty), AfterValidator(_expanded), SHOWN]
"""A path that may be relative to the directory in which the process was started."""
FilePaths = Annotated[list[Annotated[Path, AfterValidator(_absolute_path)]], BeforeValidator(_split_paths), SHOWN]
Directory = Annotated[str, AfterValidator(absolute), SHOWN]
Directories = Annotated[list[Directory], BeforeValidator(_split_paths), SHOWN]
split_words = BeforeValidator(_split_words)
Text = Annotated[str, SHOWN]
Words = Annotated[list[str], split_words, SHOWN]
Arguments = Annotated[list[str], BeforeValidator(_split_arguments)]
Cgroup = Annotated[str, AfterValidator(_cgroup), SHOWN]
LogLevel = Annotated[Level, BeforeValidator(_canonical)]
InstanceName = Annotated[
    str, Field(min_length=1, max_length=limits.MAX_INSTANCE_NAME_CHARACTERS), AfterValidator(_instance), SHOWN
]
TreePath = Annotated[str, AfterValidator(_tree_path), SHOWN]
