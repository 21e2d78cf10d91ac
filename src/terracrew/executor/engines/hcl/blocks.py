"""Finds blocks in a module's own files, before the engine would act on them: its backend, its variables, its encryption."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.source_rules import configurations

HTTP_BACKEND = "backend http"
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
    host: str = ""
    """The host name that it gives, or the address of a backend `http`; empty if it gives none, or an expression that only the engine can
    evaluate."""


class NativeBlock(NamedTuple):
    head: list[tuple[str, int]]
    """The words and quoted labels before its bracket with their positions. Those of an attribute before the block may be among them."""
    outer: str | None
    """The last word of the block that it is in; None for a block of the first level."""
    end: int | None = None
    """None for a block that does not end."""

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.head]


def backend_blocks(folder: Path, patterns: Sequence[str]) -> Iterator[BackendBlock]:
    """Yield the blocks in the root module that say where the state is stored. The patterns tell which files the engine reads."""
    for path in configuration_files(folder, patterns):
        text = text_of(path)
        # Very few files contain one of these words, and searching for them is a thousand times faster than parsing.
        if "backend" in text or "cloud" in text:
            search = _backends_in_json if path.suffix == ".json" else _backends_in_native
            for line, block, host in search(text):
                yield BackendBlock(path.name, line, block, host)


def without_backend(text: str, *, is_json: bool) -> str:
    """Return a configuration file without the blocks that say where the state is stored."""
    if is_json:
        return _json_without(text)
    kept, position = list[str](), 0
    for block in native_blocks(text):
        if block.end is not None and (found := _backend_of(block)):
            kept.append(text[position : found[0]])
            position = block.end
    return "".join([*kept, text[position:]])


def declared_variables(folder: Path, patterns: Sequence[str]) -> set[str]:
    """Return the names of the variables of the root module, so that it is not given inputs of its groups that it does not know."""
    found: set[str] = set()
    for path in configuration_files(folder, patterns):
        if "variable" not in (text := text_of(path)):
            continue
        if path.suffix == ".json":
            found.update(name for block in json_blocks(_decoded(text), "variable") for name in block)
        else:
            heads = (block.words for block in native_blocks(text) if block.outer is None)
            found.update(words[-1].strip('"') for words in heads if words[-2:-1] == ["variable"])
    return found


def has_encryption(folder: Path, patterns: Sequence[str]) -> bool:
    """Return whether a `terraform` block of the root module has an `encryption` block."""
    for path in configuration_files(folder, patterns):
        if "encryption" not in (text := text_of(path)):
            continue
        if path.suffix == ".json":
            found = (json_blocks(each, "encryption") for each in json_blocks(_decoded(text), "terraform"))
            is_found = any(True for blocks in found for _ in blocks)
        else:
            blocks = native_blocks(text)
            is_found = any(block.outer == "terraform" and block.words[-1:] == ["encryption"] for block in blocks)
        if is_found:
            return True
    return False


def configuration_files(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the files of one module, in the order of their names."""
    for path in sorted(folder.iterdir()):
        if configurations.is_match(path.name, patterns) and path.is_file():
            yield path


def text_of(path: Path) -> str:
    """Return a configuration file of a module. Raises TooLarge: what is not read could say where the state is stored."""
    return read_produced(path, _MAX_FILE_BYTES, follows_link=True).decode(errors="replace")


def native_blocks(text: str) -> Iterator[NativeBlock]:
    """Yield the blocks of the first two levels in the order in which they end, and last those that do not end."""
    opened: list[NativeBlock] = []
    deeper = 0
    head: list[tuple[str, int]] = []  # the words and labels of what may become a block
    for kind, value, position in tokens(text):
        if kind in ("word", "label"):
            head.append((value, position))
            continue
        if value == "{" and len(opened) < 2:
            opened.append(NativeBlock(head, "".join(opened[0].words[-1:]) if opened else None))
        elif value == "}" and not deeper and opened:
            yield opened.pop()._replace(end=position + 1)
        else:
            deeper += (value == "{") - (value == "}" and deeper > 0)
        head = []
    yield from opened


def _backend_of(block: NativeBlock) -> tuple[int, str] | None:
    """Return where a block that says where the state is stored begins, and what it says: `backend "s3"` or `cloud`."""
    if block.outer != "terraform":
        return None
    if block.words[-2:-1] == ["backend"]:
        return block.head[-2][1], f"backend {block.words[-1]}"
    return (block.head[-1][1], "cloud") if block.words[-1:] == ["cloud"] else None


def _backends_in_native(text: str) -> Iterator[tuple[int, str, str]]:
    for block in native_blocks(text):
        if found := _backend_of(block):
            start, name = found
            yield text.count("\n", 0, start) + 1, name, _host_in(text[start : block.end], _host_attribute(name))


def _host_attribute(block: str) -> str:
    return "address" if block.replace('"', "") == HTTP_BACKEND else "hostname"


def _host_in(block: str, attribute: str) -> str:
    """Return the host name or address that a block gives as a plain string."""
    depth = 0
    before: tuple[str, str] = ("", "")
    for kind, value, _ in tokens(block):
        depth += (value in "{([") - (value in "})]") if kind == "mark" else 0
        if kind == "label" and depth == 1 and before == (attribute, "="):
            return "" if "${" in value or "%{" in value else value.strip('"')
        before = before[1], value
    return ""


def _backends_in_json(text: str) -> Iterator[tuple[int, str, str]]:
    for terraform in json_blocks(_decoded(text), "terraform"):
        for backend in json_blocks(terraform, "backend"):
            for name in backend:
                attribute = _host_attribute(f"backend {name}")
                hosts = [_json_host(body, attribute) for body in json_blocks(backend, name)]
                yield 1, f'backend "{name}"', hosts[0] if len(hosts) == 1 else ""
        for cloud in json_blocks(terraform, "cloud"):
            yield 1, "cloud", _json_host(cloud, "hostname")


def _json_host(body: dict[str, Any], attribute: str) -> str:
    host = body.get(attribute)
    return host if isinstance(host, str) and "${" not in host and "%{" not in host else ""


def _json_without(text: str) -> str:
    content = _decoded(text)
    for terraform in json_blocks(content, "terraform"):
        for name in ("backend", "cloud"):
            terraform.pop(name, None)
    return text if content is None else msgspec.json.encode(content).decode()


def _decoded(text: str) -> Any:
    """Return what a file in JSON has; None if it is not valid: the engine reports what is wrong, and where."""
    try:
        return msgspec.json.decode(text)
    except ValueError:
        return None


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


def json_blocks(value: object, name: str) -> Iterator[dict[str, Any]]:
    """Yield the blocks of this name. In JSON a block may be an object or a list of objects, at every level."""
    for body in _objects(value):
        yield from _objects(body.get(name))


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in cast("list[object]", value if isinstance(value, list) else [value]) if _is_object(one)]


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)
