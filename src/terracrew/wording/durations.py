"""Durations as people read and write them, the same in pages, logs, messages, the API and the command line."""

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WRITTEN = re.compile(r"(\d{1,9})([smhd])\Z")


def parse(text: str) -> int | None:
    """Return the seconds that `90s`, `30m`, `24h` or `7d` mean; None for any other text.

    A number alone is none: whoever writes 5 may mean minutes.
    """
    found = _WRITTEN.match(text.strip())
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def written(seconds: int) -> str:
    """Write a number of seconds in the largest unit that divides it, as `parse` reads it."""
    unit = next(name for name in ("d", "h", "m", "s") if seconds % _UNITS[name] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


def duration(seconds: float, *, exact: bool = False) -> str:
    """Return a text such as `<0.1 s` and `0.4 s` (only if `exact`), `42 s`, `1 m 08 s`, `5 h 41 m` or `3 d 4 h`. static/times.js has
    the same format."""
    seconds = max(0.0, seconds)
    if exact and seconds < 0.05:
        return "<0.1 s"
    if exact and seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
