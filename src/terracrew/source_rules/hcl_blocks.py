"""Reads the blocks of configuration files of OpenTofu and Terraform without an engine: their labels, and attributes as they are written.

It is for files of strangers: it evaluates nothing, takes time in proportion to the length of a file, and refuses what is nested deeply. An
expression is text, of which only literals are understood.
"""

import re
import textwrap
from typing import NamedTuple

from terracrew.errors import Invalid

MAX_DEPTH = 60
"""How deeply blocks, brackets and templates may be nested."""
_SPACE = re.compile(r"(?:[ \t\r]+|\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]+|\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_NAME = re.compile(r"[^\W\d][\w-]*")
_PLAIN = re.compile(r"(?:[^\"#/<(){}\[\],\n]+|/(?![/*])|<(?!<))+")
_SIGNS = re.compile(r"[<,]+")
_HEREDOC = re.compile(r"<<(-?)([^\W\d][\w-]*)[ \t]*\r?\n")
_TEXT = re.compile(r"(?:[^\"\\$%\n]|\$\$\{|%%\{|\$(?!\{)|%(?!\{)|\\.)+", re.DOTALL)
_LITERAL = re.compile(r"\"((?:[^\"\\$%\n]|\$\$\{|%%\{|\$(?!\{)|%(?!\{)|\\.)*)\"", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))|\$(?=\$\{)|%(?=%\{)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class HclBlock(NamedTuple):
    kind: str
    labels: tuple[str, ...]
    attributes: dict[str, str]
    """Each attribute with its expression as it is written."""
    blocks: "list[HclBlock]"


def parse(text: str) -> list[HclBlock]:
    """Return the blocks of a file. Raises Invalid if it is not one, with the line."""
    reader = _BlockReader(text)
    return reader.body(0, is_top=True).blocks


def members(expression: str) -> dict[str, str]:
    """Return the members of an object, each as it is written. Raises Invalid for another expression."""
    return _BlockReader(expression).members()


def literal(expression: str) -> str | None:
    """Return the text of a literal, which is quoted or a heredoc; None for any other expression."""
    found = _LITERAL.fullmatch(expression)
    if found is not None:
        return _ESCAPE.sub(_unescaped, found[1])
    started = _HEREDOC.match(expression)
    if started is None or "${" in expression or "%{" in expression:
        return None
    content = expression[started.end() :].replace("\r\n", "\n").rpartition("\n")[0] + "\n"
    return textwrap.dedent(content) if started[1] else content


def _unescaped(found: "re.Match[str]") -> str:
    code = found[1] or found[2]
    if code is not None:
        number = int(code, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    return "" if found[3] is None else _ESCAPES.get(found[3], found[3])


class _BlockReader:
    def __init__(self, text: str) -> None:
        self._text, self._at = text.removeprefix("\ufeff"), 0

    def body(self, depth: int, *, is_top: bool = False) -> HclBlock:
        if depth > MAX_DEPTH:
            raise self._refusal("its blocks are nested too deeply")
        found = HclBlock("", (), {}, [])
        while True:
            self._skip(_SPACE_AND_LINES)
            if self._at >= len(self._text):
                if is_top:
                    return found
                raise self._refusal("a block has no end")
            if not is_top and self._text[self._at] == "}":
                self._at += 1
                return found
            name = self._name()
            self._skip(_SPACE)
            if self._text.startswith("=", self._at) and not self._text.startswith("==", self._at):
                self._at += 1
                found.attributes[name] = self._expression(depth)
            else:
                found.blocks.append(self._block(name, depth))

    def _block(self, kind: str, depth: int) -> HclBlock:
        labels: list[str] = []
        while not self._text.startswith("{", self._at):
            if self._text.startswith('"', self._at):
                start = self._at
                self._quoted(depth)
                labels.append(literal(self._text[start : self._at]) or "")
            else:
                labels.append(self._name())
            self._skip(_SPACE)
        self._at += 1
        inner = self.body(depth + 1)
        return HclBlock(kind, tuple(labels), inner.attributes, inner.blocks)

    def members(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if not self._text.startswith("{"):
            raise self._refusal("this is no object")
        self._at += 1
        while True:
            self._skip(_SPACE_AND_LINES)
            if self._text.startswith("}", self._at):
                return found
            if self._text.startswith('"', self._at):
                start = self._at
                self._quoted(0)
                name = literal(self._text[start : self._at]) or ""
            else:
                name = self._name()
            self._skip(_SPACE)
            if not self._text.startswith(("=", ":"), self._at):
                raise self._refusal(f"{name} has no value")
            self._at += 1
            found[name] = self._expression(0, ends="\n},")
            if self._text.startswith(",", self._at):
                self._at += 1

    def _expression(self, depth: int, ends: str = "\n}") -> str:
        """Read up to the end of the line, or of the block, that ends the expression."""
        self._skip(_SPACE)
        start = end = self._at
        while self._at < len(self._text) and self._text[self._at] not in ends:
            before = self._at
            self._skip(_SPACE)
            if self._at == before:
                self._piece(depth)
                end = self._at
        return self._text[start:end].strip()

    def _piece(self, depth: int) -> None:
        """Read one token of an expression, with everything in it if it is a bracket or a text."""
        if depth > MAX_DEPTH:
            raise self._refusal("its expressions are nested too deeply")
        if found := _PLAIN.match(self._text, self._at):
            self._at = found.end()
            return
        sign = self._text[self._at]
        if sign == '"':
            self._quoted(depth)
        elif sign in "([{":
            self._at += 1
            self._within({"(": ")", "[": "]", "{": "}"}[sign], depth)
        elif sign in ")]":
            raise self._refusal(f"{sign} closes nothing")
        elif found := _HEREDOC.match(self._text, self._at):
            self._heredoc(found)
        else:
            found = _SIGNS.match(self._text, self._at)
            self._at = self._at + 1 if found is None else found.end()

    def _within(self, closing: str, depth: int) -> None:
        while True:
            self._skip(_SPACE_AND_LINES)
            if self._at >= len(self._text):
                raise self._refusal(f"a {closing} is missing")
            if self._text[self._at] == closing:
                self._at += 1
                return
            if self._text[self._at] == "}":
                raise self._refusal(f"a {closing} is missing")
            self._piece(depth + 1)

    def _quoted(self, depth: int) -> None:
        self._at += 1
        while True:
            if found := _TEXT.match(self._text, self._at):
                self._at = found.end()
            if self._text.startswith('"', self._at):
                self._at += 1
                return
            if not self._text.startswith(("${", "%{"), self._at):
                raise self._refusal("a text in quotes has no end")
            self._at += 2
            if depth > MAX_DEPTH:
                raise self._refusal("its templates are nested too deeply")
            self._within("}", depth + 1)

    def _heredoc(self, started: "re.Match[str]") -> None:
        """Read up to the line that has nothing but the mark. An expression for each mark would be slow: a file can have thousands."""
        at, size = started.end(), len(self._text)
        while at < size:
            end = self._text.find("\n", at)
            end = size if end < 0 else end
            if self._text[at:end].removesuffix("\r").strip(" \t") == started[2]:
                self._at = end
                return
            at = end + 1
        raise self._refusal(f"the text that begins with <<{started[2]} has no end")

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise self._refusal("a name is missing")
        self._at = found.end()
        return found[0]

    def _skip(self, space: "re.Pattern[str]") -> None:
        found = space.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _refusal(self, why: str) -> Invalid:
        return Invalid(f"line {self._text.count(chr(10), 0, self._at) + 1}: {why}")
