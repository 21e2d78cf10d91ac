"""Finds the variables that a module declares, so that it is not given inputs of its groups that it does not know."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from terracrew.executor.engines.hcl.backend_blocks import blocks, text_of, tokens
from terracrew.source_rules import configurations


def declared(folder: Path, patterns: Sequence[str]) -> set[str]:
    """Return the names of the variables of the root module. The patterns tell which files the engine reads."""
    found: set[str] = set()
    for path in folder.iterdir():
        if configurations.is_match(path.name, patterns) and path.is_file():
            text = text_of(path)
            if "variable" in text:
                found.update((_in_json if path.suffix == ".json" else _in_native)(text))
    return found


def _in_native(text: str) -> Iterator[str]:
    depth = 0
    head: list[str] = []  # the words and labels of what may become a block
    for kind, value, _ in tokens(text):
        if kind in ("word", "label"):
            head.append(value)
            continue
        if value == "{" and depth == 0 and head[-2:-1] == ["variable"]:
            yield head[-1].strip('"')
        depth += {"{": 1, "}": -1}.get(value, 0)
        head = []


def _in_json(text: str) -> Iterator[str]:
    try:
        content = msgspec.json.decode(text)
    except ValueError:
        return  # the engine reports what is wrong, and where
    for block in blocks(content, "variable"):
        yield from block
