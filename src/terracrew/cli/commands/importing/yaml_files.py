"""Reads YAML that people give, within bounds: aliases cannot make a small file large, and every value stays a text.

Values stay texts because a version such as `1.10` is a number in YAML, which would lose its last digit.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import yaml

from terracrew.errors import Invalid

T = TypeVar("T")
MAX_FILE_BYTES = 2 << 20
MAX_VALUES = 200_000
MAX_LEVELS = 50
_NULLS = ("", "~", "null", "Null", "NULL")
_MERGE = "tag:yaml.org,2002:merge"


class _TextLoader(yaml.SafeLoader):
    """Makes a text of every scalar, and refuses merges that multiply."""

    yaml_implicit_resolvers: ClassVar = {
        first: [each for each in found if each[0] == _MERGE]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MAX_VALUES:
            raise Invalid(f"it has more than {MAX_VALUES:,} values, most of them by aliases")


def _text(loader: _TextLoader, node: yaml.Node) -> Any:
    text = loader.construct_scalar(cast("yaml.ScalarNode", node))
    is_plain = cast("yaml.ScalarNode", node).style is None
    return None if is_plain and text in _NULLS else text


for _tag in ("str", "int", "float", "bool", "null", "timestamp"):
    _TextLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", _text)


def read(file: Path, convert: Callable[[dict[str, Any]], T]) -> T:
    """Return what the mapping of a file is converted to. Raises Invalid with its name if it has none, is too large or is something else."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Invalid(f"{file} cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise Invalid(f"{file} has more than {MAX_FILE_BYTES:,} bytes")
    try:
        return convert(parse(content))
    except Invalid as error:
        raise Invalid(f"{file}: {error.message}") from None


def parse(content: bytes) -> dict[str, Any]:
    try:
        found: object = yaml.load(content, _TextLoader)  # noqa: S506 - it makes nothing but texts, lists and mappings
    except (yaml.YAMLError, ValueError, UnicodeDecodeError) as error:
        raise Invalid(f"it is not YAML: {error}") from None
    except RecursionError:
        raise Invalid(f"it is nested more than {MAX_LEVELS} levels deep") from None
    if not isinstance(found, dict):
        raise Invalid("it is not a mapping of names to values")
    document = cast("dict[str, Any]", found)
    _check(document)
    return document


def _check(document: object) -> None:
    """Refuse what would be too large if all aliases were written out. An alias of itself is endless, so it is too deep."""
    waiting, count = [(document, 0)], 0
    while waiting:
        value, level = waiting.pop()
        count += 1
        if level > MAX_LEVELS:
            raise Invalid(f"it is nested more than {MAX_LEVELS} levels deep")
        if count > MAX_VALUES:
            raise Invalid(f"it has more than {MAX_VALUES:,} values, most of them by aliases")
        if isinstance(value, dict):
            for key, below in cast("dict[object, object]", value).items():
                if not isinstance(key, str):
                    raise Invalid("a name in it is not a text")
                waiting.append((below, level + 1))
        elif isinstance(value, list):
            waiting += [(each, level + 1) for each in cast("list[object]", value)]
