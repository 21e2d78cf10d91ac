"""Cuts the notes of one version out of a changelog, whose sections begin with `## VERSION` and the newest comes first."""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"##? +(.*)")


def section_of(text: str, version: str) -> str | None:
    """Return the Markdown below the heading of a version, without the heading; None if there is no such heading.

    The heading is `## 0.1.0-rc.1`, and may have more behind it, such as a date. Lines in blocks of code are no headings.
    """
    found: list[str] | None = None
    fence = ""
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        heading = None if fence or mark else _HEADING.fullmatch(line)
        if heading is not None and found is not None:
            break
        if heading is not None and _first_word(heading[1]) == version:
            found = []
        elif found is not None:
            found.append(line)
    return None if found is None else "\n".join(found).strip()


def _first_word(heading: str) -> str:
    words = heading.split(maxsplit=1)
    return words[0].strip("[]") if words else ""
