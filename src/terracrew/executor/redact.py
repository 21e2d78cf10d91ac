"""Masks secrets in what an engine prints, in bytes, before it is spooled."""

from collections.abc import Iterable

MASK = b"***"
_SHORTEST = 4
"""Shorter pieces are no secrets, and masking them would make a log unreadable."""
_LONGEST = 4096
"""A longer line is masked in parts, so that what is held back of an open line stays small."""


class Redactor:
    def __init__(self, secrets: Iterable[str]) -> None:
        # Output is masked line by line, so a secret of several lines is as many secrets.
        lines = [line.strip().encode() for secret in secrets for line in secret.splitlines()]
        parts = {line[at : at + _LONGEST] for line in lines for at in range(0, len(line), _LONGEST)}
        self._keep(part for part in parts if len(part) >= _SHORTEST)

    def add(self, secret: str) -> None:
        """A secret of one line that came later."""
        self._keep({*self._secrets, secret.encode()})

    def forget(self, secret: str) -> None:
        self._keep(part for part in self._secrets if part != secret.encode())

    def mask(self, text: bytes) -> bytes:
        """Nearly always nothing is found, and then this costs a few searches and copies nothing."""
        for secret in self._secrets:
            if secret in text:
                return self._replace(text)
        return text

    def mask_text(self, text: str) -> str:
        return self.mask(text.encode()).decode()

    def safe_end(self, text: bytes, end: int) -> int:
        """The last place up to `end` where `text` can be cut without cutting a secret, or what may become one."""
        start = max(0, end - self.longest + 1)
        while start < end:
            rest = text[start : start + self.longest]
            if any(start + len(one) > end and one.startswith(rest[: len(one)]) for one in self._secrets):
                end = start  # which may in turn cut a secret that begins before it
                start = max(0, end - self.longest + 1)
            else:
                start += 1
        return end

    def _keep(self, secrets: Iterable[bytes]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)
        self.longest = len(self._secrets[0]) if self._secrets else 0

    def _replace(self, text: bytes) -> bytes:
        """Find every occurrence, overlapping ones too, so that no part of one secret is left beside another."""
        spans: list[tuple[int, int]] = []
        for secret in self._secrets:
            at = text.find(secret)
            while at >= 0:
                spans.append((at, at + len(secret)))
                at = text.find(secret, at + 1)
        parts: list[bytes] = []
        done = 0
        reach = -1
        for start, end in sorted(spans):
            if start >= reach:
                parts += (text[done:start], MASK)
            reach = done = max(reach, end)
        return b"".join((*parts, text[done:]))
