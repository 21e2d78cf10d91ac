"""Looks for lines in consecutive chunks of a log. It runs in a thread, and has no other input than the chunks.

A line can be in several chunks, and lines around a hit can be in others than the hit. So the scan keeps a window: the end of what it has
searched, followed by what it has not.
"""

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import zstandard

from terracrew.api.job_views import LogHit
from terracrew.protocol.spec import STEP_OF_NUMBER
from terracrew.server.logs import chunks
from terracrew.server.logs.patterns import Pattern, has_hidden, plain
from terracrew.server.logs.reads import Stored

WINDOW_BYTES = 256 << 10
"""Chunks are joined until they have this size, because a quiet job has a chunk for each line."""
MAX_LINE_BYTES = 256 << 10
"""A longer line is searched in parts, which overlap. Nothing ends the search of a part, so it is not larger than a window."""
OVERLAP_BYTES = 4 << 10
MAX_HIT_CHARACTERS = 1_000
"""How much of a line a hit shows."""
_BEFORE_MATCH_CHARACTERS = 200
MAX_SPANS = 50
"""How many matches in one line are marked."""


class LogQuery(msgspec.Struct, frozen=True):
    """What is looked for in a log."""

    text: str = ""
    is_regex: bool = False
    is_case_sensitive: bool = False
    only: chunks.Only = chunks.ALL
    context: int = 0
    """How many lines before and after each hit are shown."""

    def pattern(self) -> Pattern:
        return Pattern(self.text, is_regex=self.is_regex, is_case_sensitive=self.is_case_sensitive)


@dataclass
class _Source:
    """Records that are, or begin, in the window."""

    first_line: int
    lines: int
    body: bytes
    is_open: bool
    """Whether its last line goes on in the next one."""

    def has_start_of(self, line: int) -> bool:
        """Return whether this line, or one behind it, starts here."""
        return line < self.first_line + self.lines + self.is_open

    @cached_property
    def starts(self) -> tuple[list[int], list[chunks.EventHeader]]:
        """The first line that starts in each event in which one does, and those events."""
        starts: list[int] = []
        events: list[chunks.EventHeader] = []
        line, is_open = self.first_line, False
        for header, text in chunks.headers(self.body):
            feeds, has_end = text.count(b"\n"), text.endswith(b"\n")
            if not starts or line + is_open <= line + feeds - has_end:
                starts.append(line + is_open)
                events.append(header)
            line += feeds
            is_open = not has_end if text else is_open
        return starts, events


@dataclass
class Scan:
    """The search of one attempt's log, from one line on."""

    query: LogQuery
    pattern: Pattern
    attempt: int
    next_line: int
    """Every line before this one is searched. Lines count from 0."""
    limit: int
    """How many hits are enough."""
    run_line: int = 0
    """How many lines of the whole run come before this attempt's."""
    hits: list[LogHit] = field(default_factory=list[LogHit])
    _window: bytes = b""
    _window_line: int = 0
    _is_cut: bool = False
    """Whether some of the first line of the window was dropped, because the line is too long to be kept."""
    _cut_characters: int = 0
    """How much of it was dropped."""
    _sources: list[_Source] = field(default_factory=list[_Source])
    _last_hit: int = -1

    def __post_init__(self) -> None:
        self._first_line = self.next_line

    @property
    def is_full(self) -> bool:
        return len(self.hits) >= self.limit

    def feed(self, stored: Sequence[Stored], until: float) -> bool:
        """Search these chunks, which follow those before. Return False if it stopped: with enough hits, or after the time `until`."""
        for group in _groups(stored):
            if self.is_full or (time.monotonic() >= until and self._has_progress()):
                return False
            self._add(group)
            if self.is_full:
                return False
            self._search(is_end=False)
        return not self.is_full

    def _has_progress(self) -> bool:
        """Return whether a page that ends here is not the same again when it is asked for again.

        A line that was found, or that took the whole time, is left behind in its middle.
        """
        if self._is_cut and self.next_line in (self._last_hit, self._first_line):
            self.next_line += 1
        return self.next_line > self._first_line

    def finish(self, *, has_open_line: bool) -> None:
        """Search what is left in the window. With `has_open_line`, a line that has no end yet may go on, and is left out."""
        if not self.is_full:
            self._search(is_end=True, has_open_line=has_open_line)

    def _add(self, group: Sequence[Stored]) -> None:
        first = group[0].first_line
        end = self._sources[-1].first_line + self._sources[-1].lines if self._sources else -1
        if first != end:  # what was between them is left out or removed
            self.finish(has_open_line=False)
            self._window, self._window_line, self._sources = b"", first, []
            self._is_cut, self._cut_characters = False, 0
            self.next_line = max(self.next_line, first)
        decompress = zstandard.ZstdDecompressor().decompress
        body = b"".join([decompress(each.data) for each in group])
        text = chunks.text_of_body(body)
        self._sources.append(_Source(first, sum(each.lines for each in group), body, not text.endswith(b"\n")))
        self._window = self._window + text if self._window else text

    def _search(self, *, is_end: bool, has_open_line: bool = False) -> None:
        window, context = self._window, self.query.context
        end = window.rfind(b"\n") + 1
        is_cut = not is_end and len(window) - end > MAX_LINE_BYTES
        if is_cut or (is_end and not has_open_line):
            end = len(window)
        elif not is_end:
            end = _lines_back(window, end, context)
        start = _lines_on(window, self.next_line - self._window_line)
        if start >= end:
            return
        if self.pattern.may_be_in(window, start, end):
            self._find(window, start, end)
        if self.is_full:
            return
        self.next_line += window.count(b"\n", start, end)
        keep = (
            max(end - OVERLAP_BYTES, window.rfind(b"\n", 0, end) + 1) if is_cut else _lines_back(window, end, context)
        )
        self._drop(keep, is_cut=is_cut)

    def _drop(self, keep: int, *, is_cut: bool) -> None:
        dropped = self._window[:keep]
        feeds = dropped.count(b"\n")
        if feeds:
            self._is_cut, self._cut_characters = False, 0
        if is_cut:
            self._is_cut = True
            self._cut_characters += len(plain(dropped[dropped.rfind(b"\n") + 1 :]).decode(errors="replace"))
        self._window_line += feeds
        self._window = self._window[keep:]
        while len(self._sources) > 1 and not self._sources[0].has_start_of(self._window_line):
            del self._sources[0]
        if is_cut:  # no other line starts in what is between the start of the line and its newest part
            del self._sources[1:-1]

    def _find(self, window: bytes, start: int, end: int) -> None:
        """Add the lines that match. The window is kept with its colours; here they are removed, which leaves the line feeds."""
        before, text, after = window[:start], window[start:end], window[end:]
        if has_hidden(window):
            before, text, after = plain(before), plain(text), plain(after)
        position, line = 0, self.next_line
        size = len(text)
        while position < size and not self.is_full:
            found = self.pattern.find(text, position, size)
            if found is None:
                return
            begin = text.rfind(b"\n", 0, found[0]) + 1
            stop = text.find(b"\n", max(found[1], begin))
            stop = size if stop < 0 else stop
            if begin >= size:
                return  # an empty match behind the last line
            line += text.count(b"\n", position, begin)
            event = self._event(line)
            if line != self._last_hit and self.query.only.has(event):
                cut = self._cut_characters if line == self._window_line else 0
                self.hits.append(self._hit(before, text, after, (begin, stop), found, line, event, cut))
                self._last_hit = line
            position = stop + 1
            line += 1
        if self.is_full:
            self.next_line = line

    def _hit(
        self,
        before: bytes,
        text: bytes,
        after: bytes,
        bounds: tuple[int, int],
        found: tuple[int, int],
        line: int,
        event: chunks.EventHeader,
        cut: int,
    ) -> LogHit:
        begin, end = bounds
        spans: list[tuple[int, int]] = []
        match: tuple[int, int] | None = found
        while match is not None and len(spans) < MAX_SPANS:
            if match[1] > match[0]:
                spans.append(match)
            following = max(match[1], match[0] + 1)
            match = self.pattern.find(text, following, end) if following < end else None
        shown, skipped, places = _excerpt(text[begin:end], [(a - begin, b - begin) for a, b in spans])
        step = STEP_OF_NUMBER.get(event.step)
        context = self.query.context
        return LogHit(
            attempt=self.attempt,
            line=line + 1,
            run_line=self.run_line + line + 1,
            n=event.number,
            time=event.time,
            step=step.value if step else "",
            stream=event.stream,
            text=shown,
            matches=places,
            skipped=skipped + cut,
            before=_context(before + text[:begin], -context) if context else [],
            after=_context(text[end + 1 :] + after, context) if context else [],
        )

    def _event(self, line: int) -> chunks.EventHeader:
        """Return the event in which a line starts."""
        source = next((each for each in self._sources if each.has_start_of(line)), self._sources[-1])
        starts, events = source.starts
        return events[max(0, bisect_right(starts, line) - 1)]


def _groups(stored: Sequence[Stored]) -> Iterator[list[Stored]]:
    """Yield consecutive chunks together, until they are as large as a window."""
    group: list[Stored] = []
    size = 0
    for each in stored:
        if group and (size + each.size > WINDOW_BYTES or each.first_line != group[-1].first_line + group[-1].lines):
            yield group
            group, size = [], 0
        group.append(each)
        size += each.size
    if group:
        yield group


def _lines_on(window: bytes, count: int) -> int:
    """Return where the line begins that has so many before it; the end if there is none."""
    at = 0
    for _ in range(count):
        at = window.find(b"\n", at) + 1
        if not at:
            return len(window)
    return at


def _lines_back(window: bytes, end: int, count: int) -> int:
    """Return where the line begins that is so many before this end of a line; 0 if there are fewer."""
    for _ in range(count):
        if end <= 0:
            return 0
        end = window.rfind(b"\n", 0, end - 1) + 1
    return max(0, end)


def _context(text: bytes, count: int) -> list[str]:
    """Return the first lines, or with a negative count the last ones, each no longer than a hit."""
    if count < 0:
        at = _lines_back(text, len(text), -count)
        lines = text[at:].split(b"\n")
        lines = lines[:-1] if lines and not lines[-1] else lines
        lines = lines[count:]
    else:
        at = _lines_on(text, count)
        lines = text[:at].split(b"\n")
        lines = lines[:-1] if lines and not lines[-1] else lines
    return [line[: 4 * MAX_HIT_CHARACTERS].decode(errors="replace")[:MAX_HIT_CHARACTERS] for line in lines]


def _excerpt(line: bytes, spans: Sequence[tuple[int, int]]) -> tuple[str, int, list[tuple[int, int]]]:
    """Return the part of a line that a hit shows, how many characters come before it, and its matches, in characters."""
    text = line.decode(errors="replace")
    if len(text) == len(line):
        places = list(spans)
    else:
        places = [(len(line[:a].decode(errors="replace")), len(line[:b].decode(errors="replace"))) for a, b in spans]
    if len(text) <= MAX_HIT_CHARACTERS:
        return text, 0, places
    skipped = max(0, (places[0][0] if places else 0) - _BEFORE_MATCH_CHARACTERS)
    skipped = min(skipped, len(text) - MAX_HIT_CHARACTERS)
    shown = text[skipped : skipped + MAX_HIT_CHARACTERS]
    moved = [(a - skipped, min(b - skipped, MAX_HIT_CHARACTERS)) for a, b in places if a - skipped < MAX_HIT_CHARACTERS]
    return shown, skipped, moved
