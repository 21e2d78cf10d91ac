"""Masks known secrets in text, in all forms that they may have, with one search for all of them."""

from collections.abc import Iterable

from ahocorasick_rs import BytesAhoCorasick

from terracrew.masking import forms

MASK = b"***"
_SMALL_TEXT_BYTES = 4096
"""A smaller text is searched without the automaton until that exists: building it takes milliseconds, longer than a job's start."""
MAX_ENCODED_BYTES = 16 << 10
"""The total size of the secrets that are also searched for in other forms. Further secrets are masked only as they are."""
_PREFIX_BYTES = 4


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

    def add(self, secret: str) -> None:
        """Mask this secret in everything from now on."""
        self._take(secret)
        self._index()

    def forget(self, secret: str) -> None:
        if self._patterns_of.pop(secret, None):
            self._encoded_bytes -= len(secret)
        self._index()

    def mask(self, text: bytes) -> bytes:
        """Return the masked text, or the same object if nothing was found, which is nearly always the case."""
        if not self._patterns or not self._has_secret(text):
            return text
        spans = sorted((start, end) for _, start, end in self._search().find_matches_as_indexes(text, overlapping=True))
        parts: list[bytes] = []
        done = 0
        reach = -1
        for start, end in spans:  # overlapping ones become one mask, so that no part of a secret is left beside another
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
        start = max(0, end - self.longest + 1)
        while start < end:
            for pattern in self._by_prefix.get(text[start : start + _PREFIX_BYTES], ()):
                if start + len(pattern) > end and pattern.startswith(text[start : start + len(pattern)]):
                    end = start  # which may in turn cut a secret that begins before it
                    start = max(0, end - self.longest + 1)
                    break
            else:
                start += 1
        return end

    def _take(self, secret: str) -> None:
        if secret not in self._patterns_of:
            self._encoded_bytes += len(secret)
            is_encoded = self._encoded_bytes <= MAX_ENCODED_BYTES
            self._patterns_of[secret] = forms.patterns(secret, is_encoded=is_encoded)

    def _index(self) -> None:
        self._patterns = sorted(set[bytes]().union(*self._patterns_of.values()))
        self.longest = max(map(len, self._patterns), default=0)
        self._automaton: BytesAhoCorasick | None = None
        self._by_prefix: dict[bytes, list[bytes]] = {}
        for pattern in self._patterns:  # a text may end inside a prefix, so shorter ones are keys as well
            for length in range(1, _PREFIX_BYTES + 1):
                self._by_prefix.setdefault(pattern[:length], []).append(pattern)

    def _has_secret(self, text: bytes) -> bool:
        if self._automaton is None and len(text) < _SMALL_TEXT_BYTES:
            return any(pattern in text for pattern in self._patterns)
        return bool(self._search().find_matches_as_indexes(text))

    def _search(self) -> BytesAhoCorasick:
        if self._automaton is None:
            self._automaton = BytesAhoCorasick(self._patterns)
        return self._automaton
