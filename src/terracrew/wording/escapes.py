"""Terminal control sequences in text that others wrote: which ones a terminal may receive, and a filter for the rest.

An engine, a provider or a script can print anything. A raw sequence could clear the operator's screen, move the cursor over
earlier lines, set the window's title or write to the clipboard. So only colours (SGR) may pass, and only where a person wants
them. A tab, a line feed and a carriage return always pass.
"""

import codecs
import re

_STRING_START = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"  # OSC, DCS, SOS, PM and APC, in seven bits or in eight
_STRING_BODY = r"[^\x07\x18\x1a\x1b\x9c\n]*"
# A line feed ends a string, too: otherwise one that never ends would hide the rest of the log. So does the end of the text:
# a filter cuts it before the escape that begins the next sequence.
_STRING_END = r"(?:\x07|\x18|\x1a|\x9c|\x1b\\|(?=[\n\x1b])|\Z)"
_CSI_START = r"(?:\x1b\[|\x9b)"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # all but tab, line feed and carriage return

ESCAPES = re.compile(
    rf"{_CSI_START}[0-?]*[ -/]*[@-~]|{_STRING_START}{_STRING_BODY}{_STRING_END}|\x1b[ -/]*[0-~]|{_CONTROL}"
)
"""Everything that a terminal acts on instead of showing it."""
_COLOUR = re.compile(rf"{_CSI_START}([0-9;:]*)m")
# The finished sequences are a part of this, so that one pass goes from sequence to sequence. A search for an unfinished one alone
# would look from every start of a string to its end, in a time that grows with the square of the text.
_UNFINISHED = rf"(?:{_CSI_START}[0-?]*[ -/]*|(?P<string>{_STRING_START}){_STRING_BODY}\x1b?|\x1b[ -/]*)\Z"
_SEQUENCES = re.compile(rf"(?P<unfinished>{_UNFINISHED})|{ESCAPES.pattern}")
_RESET = "\x1b[0m"
MAX_HELD_CHARACTERS = 4096
"""How much of an unfinished sequence is kept until the rest of it arrives."""


def plain(text: str) -> str:
    """Remove everything that a terminal would act on."""
    return ESCAPES.sub("", text)


class TerminalFilter:
    """Filters a text that arrives in pieces, which may be cut in the middle of a sequence."""

    def __init__(self, *, keep_colours: bool) -> None:
        self._keep_colours = keep_colours
        self._held = ""
        self._is_coloured = False

    def feed(self, piece: str) -> str:
        """Return what may be shown so far."""
        text = self._held + piece
        self._held = ""
        return _SEQUENCES.sub(self._replace, text)

    def finish(self) -> str:
        """Return what must follow the last piece: a terminal is not left coloured. A sequence without an end is dropped."""
        self._held = ""
        return _RESET if self._is_coloured else ""

    def _replace(self, sequence: re.Match[str]) -> str:
        if sequence["unfinished"] is not None:
            # The content of a string is never shown, so of a long one only the start must be remembered.
            is_long = len(sequence[0]) > MAX_HELD_CHARACTERS
            self._held = sequence["string"] or "" if is_long else sequence[0]
            return ""
        colour = _COLOUR.fullmatch(sequence[0]) if self._keep_colours else None
        if colour is None:
            return ""
        self._is_coloured = colour[1].strip("0;") != ""
        return f"\x1b[{colour[1]}m"


class TerminalBytesFilter:
    """The same for UTF-8, whose pieces may be cut in the middle of a character."""

    def __init__(self, *, keep_colours: bool) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._filter = TerminalFilter(keep_colours=keep_colours)

    def feed(self, piece: bytes) -> bytes:
        return self._filter.feed(self._decoder.decode(piece)).encode()

    def finish(self) -> bytes:
        rest = self._filter.feed(self._decoder.decode(b"", final=True))
        return (rest + self._filter.finish()).encode()
