"""Recognizes what programs print if another machine is away or overloaded."""

import re

_NETWORK_ERROR = re.compile(
    r"connection (refused|reset by peer|timed out)|network is unreachable|no route to host|no such host|"
    r"temporary failure in name resolution|server misbehaving|i/o timeout|TLS handshake timeout|Client\.Timeout exceeded|"
    r"context deadline exceeded|unexpected EOF|could not connect to|too many requests|bad gateway|service unavailable|"
    r"gateway time-?out|internal server error|(HTTP|status|status code|code)[ :=]{1,2}(429|50[0234])\b",
    re.IGNORECASE,
)
"""The Go runtime has most of these texts."""


def is_in(text: str, start: int = 0) -> bool:
    return _NETWORK_ERROR.search(text, start) is not None
