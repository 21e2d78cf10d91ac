"""What is looked for in logs: a text or a regular expression, and how the text of a log looks without colours.

RE2 looks for both. Its time grows with the length of the text and with nothing else, whatever the expression is, and it lets other
threads of the server run in the meantime (ADR 0104).
"""

import re
from functools import cache
from typing import Any, Protocol, cast

from terracrew.errors import Invalid

MAX_PATTERN_CHARACTERS = 500
MAX_PROGRAM_INSTRUCTIONS = 1_000
"""The largest program that an expression may become. The time for a byte can grow with it: 7 µs for the worst one of this size, which
are 2 s for a window. `(a|b?){500}` is refused."""
MAX_HINT_LETTERS = 16
"""How many letters of a text are looked for with sequences between them. Few lines have these and not the others."""
MAX_PROGRAM_BYTES = 4 << 20
"""The most memory of a compiled expression."""
# With a fixed first byte, the expression jumps from one sequence to the next: 3 ms of a MiB of log instead of 24.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?|[ -/]*[0-~]?)"
)
_BETWEEN_LETTERS = (
    rb"(?:\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"
    rb"|\x1b[ -/]*[0-~]?|[\x00\x08])*"
)
"""What a terminal does not show, between two letters that a reader sees side by side."""


class _FoundSpan(Protocol):
    def span(self) -> tuple[int, int]: ...


class _CompiledSearch(Protocol):
    programsize: int
    reverseprogramsize: int

    def search(self, text: bytes, start: int, end: int) -> _FoundSpan | None: ...


def plain(text: bytes) -> bytes:
    """Return whole lines of a log without escape sequences. Of a line that overwrites itself, only its last version is kept."""
    if b"\0" in text or b"\b" in text:
        text = text.translate(None, b"\0\b")
    if b"\x1b" in text:
        text = _SEQUENCE.sub(b"", text)
    if b"\r" in text:
        text = b"\n".join(
            line.rstrip(b"\r").rpartition(b"\r")[2] if b"\r" in line else line for line in text.split(b"\n")
        )
    return text


def has_hidden(text: bytes) -> bool:
    """Return whether `plain` would change the text."""
    return b"\x1b" in text or b"\r" in text or b"\0" in text or b"\b" in text


class Pattern:
    """A text or an expression. Lines match in which it is found; `^` and `$` are the start and the end of a line."""

    def __init__(self, text: str, *, is_regex: bool = False, is_case_sensitive: bool = False) -> None:
        if len(text) > MAX_PATTERN_CHARACTERS:
            raise Invalid.in_field("text", f"a search has at most {MAX_PATTERN_CHARACTERS} characters, not {len(text)}")
        if "\n" in text or "\0" in text:
            raise Invalid.in_field("text", "a search is for one line: it has no line feed and no NUL")
        flags = b"(?m)" if is_case_sensitive else b"(?mi)"
        # Without letters beyond ASCII, upper and lower case are compared as ASCII, which is twice as fast.
        is_ascii = text.isascii() and not is_regex
        source = text.encode() if is_regex else re.escape(text).encode()
        self._expression = _compiled(flags + source, is_ascii=is_ascii, is_bounded=is_regex)
        self._hint: _CompiledSearch | None = None
        if text and not is_regex:
            letters = (re.escape(letter).encode() for letter in text[:MAX_HINT_LETTERS])
            self._hint = _compiled(flags + _BETWEEN_LETTERS.join(letters), is_ascii=is_ascii, is_bounded=False)

    def may_be_in(self, text: bytes, start: int, end: int) -> bool:
        """Return False if none of these lines matches, as they were printed. That is cheaper than to remove the colours of all."""
        return self._hint is None or self._hint.search(text, start, end) is not None

    def find(self, text: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Return where the first match begins and ends. `text` has no colours, and `start` and `end` are ends of lines."""
        found = self._expression.search(text, start, end)
        return None if found is None else found.span()


@cache
def _engine() -> Any:
    # It is loaded by the first search, because a server that nobody searches needs neither its memory nor its time.
    import re2

    return re2


def _compiled(source: bytes, *, is_ascii: bool, is_bounded: bool) -> _CompiledSearch:
    engine = _engine()
    options = engine.Options()
    options.never_nl, options.never_capture, options.log_errors = True, True, False
    options.max_mem = MAX_PROGRAM_BYTES
    if is_ascii:
        options.encoding = engine.Options.Encoding.LATIN1
    try:
        found = cast(_CompiledSearch, engine.compile(source, options))
    except engine.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise Invalid.in_field("text", f"this is not a regular expression of RE2: {why[:200]}") from None
    if is_bounded and max(found.programsize, found.reverseprogramsize) > MAX_PROGRAM_INSTRUCTIONS:
        raise Invalid.in_field("text", "this regular expression is too large: repeat fewer things, or fewer times")
    return found
