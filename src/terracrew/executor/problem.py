"""Finds, in what an engine printed before it failed, the sentence that tells a person why."""

import os
import re
from pathlib import Path

_TAIL = 256 << 10
_LONGEST = 500
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(
    r"^[│|]?[ ]?Error: (?P<what>.+)$(?:\n[│|]?[ ]*)?(?:\n[│|]?[ ]*on (?P<file>\S+) line (?P<line>\d+))?", re.M
)


def first_error(output: Path, since: int) -> str:
    """The first error in the last part of the output from `since` on, with its place; '' where there is none.

    From the terminal's text and not from JSON, since it is the same in every engine and step.
    """
    with open(output, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(since, size - _TAIL))
        text = _COLOUR.sub("", file.read().decode(errors="replace"))
    if not (match := _ERROR.search(text)):
        return ""
    what = match["what"].strip()[:_LONGEST]
    return f"{what} ({match['file']}:{match['line']})" if match["file"] else what
