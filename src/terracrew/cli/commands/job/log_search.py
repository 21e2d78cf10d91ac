"""Prints the lines of a job's log in which something is found, and those around them. The server searches."""

import sys
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import msgspec

from terracrew.api.job_views import LogFound, LogHit
from terracrew.cli.printing import output, streams
from terracrew.client.address import segment
from terracrew.wording.escapes import plain

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_PAGE_HITS = 500
POLL_SECONDS = 1.0
"""How often the log of a running job is searched for new lines."""
PROGRESS_SECONDS = 2.0
"""A search that takes longer says how far it is."""


def search(api: "Api", job_id: str, query: dict[str, Any], *, following: bool = False) -> int:
    """Print all hits in the order of the log, and return how many. With `following`, until the job has ended."""
    count, printed = 0, _PrintedHits()
    with streams.document_output() as document, streams.log_output(colour=False) as write:
        for hits in _pages(api, job_id, query, following=following):
            count += len(hits)
            if output.wants_json():
                document.write(msgspec.json.Encoder().encode_lines(hits))
                document.flush()
            else:
                write("".join([*(line for hit in hits for line in printed.hit(hit)), *printed.rest()]))
    if not count and not output.wants_json():
        output.note(f"no line of the log of job {job_id} has {query['text']!r}")
    return count


def _pages(api: "Api", job_id: str, query: dict[str, Any], *, following: bool) -> Generator[list[LogHit]]:
    place = f"/jobs/{segment(job_id)}/log/search"
    query = dict(query)
    with _SearchProgress() as progress:
        while True:
            page = api.get(place, LogFound, **query, limit=MAX_PAGE_HITS)
            query["after"] = page.after
            if page.hits:
                progress.clear()
                yield page.hits
            if not page.is_end:
                progress.show(page)
            elif following and page.is_live:
                time.sleep(POLL_SECONDS)
            else:
                return


class _SearchProgress:
    """Says on a terminal how far a long search is."""

    def __init__(self) -> None:
        self._began, self._is_shown = time.monotonic(), False
        self._is_wanted = sys.stderr.isatty() and not output.wants_json()

    def __enter__(self) -> "_SearchProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, page: LogFound) -> None:
        if self._is_wanted and time.monotonic() - self._began >= PROGRESS_SECONDS:
            stream = streams.unguarded_stderr()
            stream.write(f"\rsearched {page.searched:,} of {page.lines:,} lines")
            stream.flush()
            self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            stream = streams.unguarded_stderr()
            stream.write("\r\x1b[K")
            stream.flush()
            self._is_shown = False


class _PrintedHits:
    """Prints hits as `grep -n -C` does: lines around them have a dash behind their number, and a line divides what is apart."""

    def __init__(self) -> None:
        self._last: LogHit | None = None
        self._end = 0
        """The last line that was printed."""

    def hit(self, hit: LogHit) -> Generator[str]:
        yield from self._after(hit.run_line)
        first = hit.run_line - len(hit.before)
        if self._end and hit.before and first > self._end + 1:
            yield "--\n"
        for number, text in enumerate(hit.before, first):
            if number > self._end:
                yield _line(number, "-", text)
        yield _line(hit.run_line, ":", f"…{hit.text}" if hit.skipped else hit.text)
        self._last, self._end = hit, hit.run_line

    def rest(self) -> Generator[str]:
        """Yield what follows the last hit, up to where its context ends."""
        yield from self._after(None)

    def _after(self, before: int | None) -> Generator[str]:
        """Yield the lines after the last hit that come before this line."""
        for number, text in enumerate(self._last.after if self._last else (), self._end + 1):
            if before is None or number < before:
                yield _line(number, "-", text)
                self._end = number
        self._last = None


def _line(number: int, mark: str, text: str) -> str:
    return f"{number}{mark} {plain(text)}\n"
