"""Checks the names, the sizes and the depth of inputs."""

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from terracrew.engine_rules import flags, input_names
from terracrew.errors import Invalid, TooLarge
from terracrew.masking.names import MIN_SECRET_BYTES

MAX_CONTENT_BYTES = 256 * 1024
MAX_INPUTS = 500
"""The most inputs that a place can have."""
MAX_PATH_CHARACTERS = 500
MAX_INPUT_LEVELS = 100
"""The deepest nesting of lists and objects in an input or in the settings of a source, so that decoding never runs out of stack."""


def check_inputs(inputs: Mapping[str, Any]) -> None:
    """Check the variables of a place or a job."""
    check_depth("inputs", inputs)
    check_size("inputs", inputs)
    for name in inputs:
        if problem := input_names.problem_of_variable(name):
            raise Invalid(f"inputs: {problem}", field=name[:300])


def check_environment(environment: Mapping[str, str]) -> None:
    """Check the environment variables of a place or a job."""
    check_size("environment", environment)
    for name, value in environment.items():
        if problem := input_names.problem_of_environment(name):
            raise Invalid(f"environment: {problem}", field=name[:300])
        if "\0" in value:
            raise Invalid(f"environment: the value of {name} has a NUL character in it", field=name)
    flags.check_environment(environment)


def check_output(name: str) -> None:
    """Check the name of an output of another module."""
    if problem := input_names.problem_of_variable(name):
        raise Invalid.in_field("output", problem)


def check_file_path(path: str) -> None:
    """Refuse a path that is not inside a source, or that another path could stand for."""
    is_plain = posixpath.normpath(path) == path and not path.startswith(("/", "..")) and path != "."
    if not is_plain or len(path) > MAX_PATH_CHARACTERS or not (path.isprintable() and path.isascii()) or "\\" in path:
        raise Invalid(
            f"file: {path[:300]!r} is not a valid path: it should be relative, without `.`, `..` or double slashes, and have "
            f"at most {MAX_PATH_CHARACTERS} printable ASCII characters",
            field=path[:300],
        )


def check_secret(name: str, text: str) -> None:
    """Refuse a secret that cannot be masked in logs, or that an engine cannot be given."""
    if len(text.strip().encode()) < MIN_SECRET_BYTES:
        raise Invalid(
            f"secret {name}: it needs at least {MIN_SECRET_BYTES} characters: a shorter one cannot be masked in logs",
            field=name,
        )
    if "\0" in text:
        raise Invalid(f"secret {name}: it has a NUL character in it", field=name)


def check_depth(what: str, content: Mapping[str, Any]) -> None:
    level: list[Any] = list(content.values())
    for _ in range(MAX_INPUT_LEVELS):
        level = [below for each in level for below in _below(each)]
        if not level:
            return
    raise Invalid.in_field(what, f"they are nested more than {MAX_INPUT_LEVELS} levels deep")


def check_size(what: str, content: Mapping[str, Any], max_bytes: int = MAX_CONTENT_BYTES) -> None:
    size = len(msgspec.json.encode(content))
    if size > max_bytes:
        raise TooLarge(f"{what}: {size:,} bytes are too many: at most {max_bytes:,} are allowed", field=what)


def _below(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType]
