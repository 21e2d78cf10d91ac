"""Durations as people read them, the same in pages, logs and the API."""


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
