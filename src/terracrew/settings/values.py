"""Types of settings that runner and server share: sections, directories, lists in one variable, and checks of ours."""

import json
import os
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from terracrew import errors

_SEPARATOR = re.compile(r"[\s,]+")


class SettingsSection(BaseModel):
    """A group of settings. It refuses unknown keys, and its errors repeat no value, because values may be secret."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def checked(check: Callable[[str], str]) -> AfterValidator:
    """Turn a check of ours into one that raises what the settings library expects."""

    def run(text: str) -> str:
        try:
            return check(text)
        except errors.Invalid as error:
            raise ValueError(error.message) from error

    return AfterValidator(run)


def _expanded(text: str) -> str:
    path = os.path.expanduser(text)
    if not os.path.isabs(path):
        raise ValueError(f"{text!r} is not an absolute path")
    return os.path.normpath(path)


def _split_paths(value: Any) -> Any:
    """Split one text into several paths, which are separated as in PATH or given as a JSON list."""
    return _split(value, lambda text: text.split(os.pathsep))


def _split_words(value: Any) -> Any:
    """Split one text into several words, which are separated by spaces or commas or given as a JSON list."""
    return _split(value, _SEPARATOR.split)


def _split(value: Any, split: Callable[[str], list[str]]) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [part for part in split(value) if part]


Directory = Annotated[str, AfterValidator(_expanded)]
Directories = Annotated[list[Directory], BeforeValidator(_split_paths)]
Words = Annotated[list[str], BeforeValidator(_split_words)]
