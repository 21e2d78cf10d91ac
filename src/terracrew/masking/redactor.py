"""Masks known secrets in text, in all forms that they may have, with one search for all of them."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from ahocorasick_rs import BytesAhoCorasick, Implementation

from terracrew.masking import forms

MASK = b"***"
_SMALL_TEXT_BYTES = 4096
"""A smaller text is searched without the automaton until that exists: building it takes milliseconds, longer than a job's start."""
_MAX_START_BYTES = 8
"""A text without the first bytes of any pattern has no secret. More bytes would find fewer texts that have only the start of one."""
MAX_ENCODED_BYTES = 32 << 10
"""The total size of the secrets that are also searched for in other forms. Further secrets are masked only as they are."""
_MAX_SEARCHED_BYTES = 32 << 10
"""Searching so many bytes without the automaton takes about as long as building it, which is done then."""
_MAX_TABLE_PATTERNS = 1500
"""Up to so many patterns, about ten secrets, the automaton is a table: it searches three times as fast, and is built in 15 ms."""


class Redactor:
    def __init__(self, secrets: Iterable[str]) -> None:
        self._patterns_of: dict[str, set[bytes]] = {}
        self._encoded_bytes = 0
        for secret in secrets:
            self._take(secret)
        self._index()

    def __bool__(self) -> bool:
        """Return whether there is anything to mask."""
        return bool(self._patterns)

    def __repr__(self) -> str:
        return f"Redactor({len(self._patterns_of)} secrets)"

    def add(self, *secrets: str) -> None:
        """Mask these secrets in everything from now on."""
        if unknown := [secret for secret in secrets if secret not in self._patterns_of]:
            for secret in unknown:
                self._take(secret)
            self._index()

    def forget(self, secret: str) -> None:
        if self._patterns_of.pop(secret, None):
            self._encoded_bytes -= len(secret)
        self._index()

    def mask(self, text: bytes) -> bytes:
        """Return the masked text, or the same object if nothing was found, which is nearly always the case."""
        if self._is_without_secret(text) or not (spans := self._spans(text)):
            return text
        parts: list[bytes] = []
        done = 0
        reach = -1
        for start, end in sorted(
            spans
        ):  # overlapping ones become one mask, so that no part of a secret is left beside another
            if start >= reach:
                parts += (text[done:start], MASK)
            reach = done = max(reach, end)
        return b"".join((*parts, text[done:]))

    def mask_text(self, text: str) -> str:
        encoded = text.encode(errors="surrogatepass")
        masked = self.mask(encoded)
        return text if masked is encoded else masked.decode(errors="replace")

    def safe_end(self, text: bytes, end: int) -> int:
        """Return the last position up to `end` where `text` can be cut without cutting a secret or the start of one."""
        spans = [
            *self._spans(text[: end + self.longest]),
            *((start, len(text) + 1) for start in self._open_starts(text)),
        ]
        for start, stop in sorted(spans, reverse=True):
            if start < end < stop:
                end = start  # which may in turn cut a secret that begins before it
        return end

    def _spans(self, text: bytes) -> list[tuple[int, int]]:
        found = self._search().find_matches_as_indexes(text, overlapping=True) if self._patterns else ()
        return [(start, stop) for _, start, stop in found]

    def _open_starts(self, text: bytes) -> Iterator[int]:
        """Yield the positions from where to its end the text is the incomplete start of a secret."""
        if self._ordered is None:
            self._ordered = sorted(self._patterns)
        ordered = self._ordered
        for start in range(max(0, len(text) - self.longest + 1), len(text)):
            rest = text[start:]
            at = bisect_right(ordered, rest)
            if at < len(ordered) and ordered[at].startswith(rest):
                yield start

    def _take(self, secret: str) -> None:
        if secret not in self._patterns_of:
            self._encoded_bytes += len(secret)
            is_encoded = self._encoded_bytes <= MAX_ENCODED_BYTES
            self._patterns_of[secret] = forms.patterns(secret, is_encoded=is_encoded)

    def _index(self) -> None:
        self._patterns = set[bytes]().union(*self._patterns_of.values())
        sizes = set(map(len, self._patterns))
        self.longest = max(sizes, default=0)
        self._start_bytes = min(sizes | {_MAX_START_BYTES})
        self._starts = frozenset([pattern[: self._start_bytes] for pattern in self._patterns])
        self.has_lines = b"\n" in b"".join(self._patterns)
        """Whether a pattern goes over several lines."""
        self._automaton: BytesAhoCorasick | None = None
        self._searched_bytes = 0
        self._ordered: list[bytes] | None = None
        """The patterns in their order. Only a job whose engine prints incomplete or very long lines needs it."""

    def _is_without_secret(self, text: bytes) -> bool:
        """Return True if a search without the automaton has shown that there is no secret in the text."""
        if self._automaton is not None or len(text) >= _SMALL_TEXT_BYTES:
            return False
        self._searched_bytes += len(text)
        if self._searched_bytes > _MAX_SEARCHED_BYTES:
            return False
        size = self._start_bytes
        return self._starts.isdisjoint([text[at : at + size] for at in range(len(text) - size + 1)])

    def _search(self) -> BytesAhoCorasick:
        if self._automaton is None:
            is_quick = len(self._patterns) <= _MAX_TABLE_PATTERNS
            self._automaton = BytesAhoCorasick(
                self._patterns, implementation=Implementation.DFA if is_quick else Implementation.ContiguousNFA
            )
        return self._automaton
