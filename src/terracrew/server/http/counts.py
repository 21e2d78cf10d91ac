"""Counts the answers of this process, for metrics."""

from collections import Counter

from litestar.types import Message, Scope


class Counts:
    """Counts answered requests by method and status, as plain numbers, because this runs for every request."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()

    async def count(self, message: Message, scope: Scope) -> None:
        if message["type"] == "http.response.start" and scope["type"] == "http":
            self.answers[scope["method"], message["status"]] += 1
