"""Finds the reason of a failure in what the engine printed.

The text of the terminal is searched, not JSON, because it has the same form in every step and in every version.
"""

import re

from terracrew.executor.engines.contract import FailureDetails

_MAX_ERROR_CHARACTERS = 500
_ERROR = re.compile(
    r"^[│|]?[ ]?Error: (?P<what>.+)$(?:\n[│|]?[ ]*)?(?:\n[│|]?[ ]*on (?P<file>\S+) line (?P<line>\d+))?", re.M
)
_OUT_OF_MEMORY = re.compile(
    r"^(?:[│|] ?)?(fatal error: .*(?:cannot allocate memory|out of memory).*|runtime: out of memory.*)$", re.M
)
"""What the Go runtime prints when it gets no memory; tens of kilobytes of goroutine traces follow it."""


def details(text: str) -> FailureDetails:
    return FailureDetails(first_error(text), out_of_memory(text))


def first_error(text: str) -> str:
    """Return the first error in the text, with its place; '' if there is none."""
    if not (match := _ERROR.search(text)):
        return ""
    what = match["what"].strip()[:_MAX_ERROR_CHARACTERS]
    return f"{what} ({match['file']}:{match['line']})" if match["file"] else what


def out_of_memory(text: str) -> str:
    """Return the line with which a Go program ended because it got no memory; '' if there is none."""
    match = _OUT_OF_MEMORY.search(text)
    return match[1].strip()[:_MAX_ERROR_CHARACTERS] if match else ""
