"""Finds a backend or a cloud block in a module's own files, before the engine would act on it."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.source_rules import configurations

_MAX_FILE_BYTES = 16 << 20
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))
      | <<-?(?P<heredoc>[^\W\d][\w-]*)[^\n]*\n
      | (?P<quote>")
      | (?P<word>[^\W\d][\w-]*)
      | (?P<mark>[{}()\[\]=])""",
    re.VERBOSE | re.DOTALL,
)
_IN_STRING = re.compile(r'\\.|\$\$\{|%%\{|\$\{|%\{|"|\n', re.DOTALL)


class BackendBlock(NamedTuple):
    file: str
    line: int
    block: str
    """`backend "s3"` or `cloud`."""


def foreign_backend(folder: Path, patterns: Sequence[str]) -> BackendBlock | None:
    """Return the first block in the root module that says where the state is stored. The patterns tell which files the engine reads."""
    for path in configuration_files(folder, patterns):
        text = text_of(path)
        # Very few files contain one of these words, and searching for them is a thousand times faster than parsing.
        if "backend" in text or "cloud" in text:
            search = _in_json if path.suffix == ".json" else _in_native
            if found := search(text):
                line, block = found
                return BackendBlock(path.name, line, block)
    return None


def without_backend(text: str, *, is_json: bool) -> str:
    """Return a configuration file without the blocks that say where the state is stored."""
    if is_json:
        return _json_without(text)
    while (found := _extent(text)) is not None:
        text = text[: found[0]] + text[found[1] :]
    return text


def configuration_files(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the files of one module, in the order of their names."""
    for path in sorted(folder.iterdir()):
        if configurations.is_match(path.name, patterns) and path.is_file():
            yield path


def text_of(path: Path) -> str:
    """Return a configuration file of a module. Raises TooLarge: what is not read could say where the state is stored."""
    return read_produced(path, _MAX_FILE_BYTES, follows_link=True).decode(errors="replace")


def _in_native(text: str) -> tuple[int, str] | None:
    depth = 0
    in_terraform = False
    head: list[str] = []  # the words and labels of what may become a block
    for kind, value, position in tokens(text):
        if kind in ("word", "label"):
            head.append(value)
        elif value == "{":
            depth += 1
            if depth == 1:
                in_terraform = head[-1:] == ["terraform"]
            elif depth == 2 and in_terraform:
                line = text.count("\n", 0, position) + 1
                if head[-2:-1] == ["backend"]:
                    return line, f"backend {head[-1]}"
                if head[-1:] == ["cloud"]:
                    return line, "cloud"
            head = []
        else:
            depth -= value == "}"
            head = []
    return None


def _extent(text: str) -> tuple[int, int] | None:
    """Return where the first such block begins and ends; None if there is none, or if it does not end."""
    depth, in_terraform, begin = 0, False, None
    head: list[tuple[str, int]] = []
    for kind, value, position in tokens(text):
        if kind in ("word", "label"):
            head.append((value, position))
            continue
        names = [name for name, _ in head]
        if value == "{":
            depth += 1
            if depth == 1:
                in_terraform = names[-1:] == ["terraform"]
            elif depth == 2 and in_terraform and begin is None:
                begin = head[-2][1] if names[-2:-1] == ["backend"] else head[-1][1] if names[-1:] == ["cloud"] else None
        elif value == "}":
            depth -= 1
            if begin is not None and depth == 1:
                return begin, position + 1
        head = []
    return None


def _json_without(text: str) -> str:
    try:
        content = msgspec.json.decode(text)
    except ValueError:
        return text  # the engine reports what is wrong, and where
    for terraform in blocks(content, "terraform"):
        for name in ("backend", "cloud"):
            terraform.pop(name, None)
    return msgspec.json.encode(content).decode()


def tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield words, quoted labels and brackets. The content of comments, heredocs and longer strings is skipped."""
    position = 0
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match["heredoc"]:
            end = re.compile(rf"^[ \t]*{re.escape(match['heredoc'])}[ \t]*\r?$", re.MULTILINE).search(text, position)
            position = end.end() if end else len(text)
        elif match["quote"]:
            end_of_string = _end_of_string(text, position)
            yield (
                "label",
                text[position - 1 : end_of_string],
                match.start(),
            )  # with its quotes, so that a label is not taken for a keyword
            position = end_of_string
        elif not match["comment"]:
            yield match.lastgroup or "", match[0], match.start()


def _end_of_string(text: str, position: int) -> int:
    """Return the position after the closing quote. A template in the string may contain strings and braces of its own."""
    while match := _IN_STRING.search(text, position):
        position = match.end()
        if match[0] in (
            '"',
            "\n",
        ):  # a string ends on its line; otherwise the file is broken, and the engine reports it
            return position
        if match[0] in ("${", "%{"):
            position = _end_of_template(text, position)
    return len(text)


def _end_of_template(text: str, position: int) -> int:
    depth = 1
    while depth and (match := _TOKEN.search(text, position)):
        position = match.end()
        if match["quote"]:
            position = _end_of_string(text, position)
        elif match["mark"]:
            depth += {"{": 1, "}": -1}.get(match["mark"], 0)
    return len(text) if depth else position


def _in_json(text: str) -> tuple[int, str] | None:
    try:
        content = msgspec.json.decode(text)
    except ValueError:
        return None  # the engine reports what is wrong, and where
    for terraform in blocks(content, "terraform"):
        for backend in blocks(terraform, "backend"):
            for name in backend:
                return 1, f'backend "{name}"'
        for _ in blocks(terraform, "cloud"):
            return 1, "cloud"
    return None


def blocks(value: object, name: str) -> Iterator[dict[str, Any]]:
    """Yield the blocks of this name. In JSON a block may be an object or a list of objects, at every level."""
    for body in _objects(value):
        yield from _objects(body.get(name))


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in cast("list[object]", value if isinstance(value, list) else [value]) if _is_object(one)]


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)
