"""Encrypts a stream of any length in pieces, so that none of it can be changed, moved, left out or cut off.

The format, and the reason for a format of our own, are in docs/decisions/0026-encryption-of-saved-plans.md;
tests/executor/saved_plan/test_encrypt.py has test vectors.
"""

import hashlib
import io
import os
from collections.abc import Iterator
from typing import IO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.errors import Invalid, TooLarge

PIECE_BYTES = 1 << 20
_NONCE_BYTES, _TAG_BYTES = 12, 16
_SEALED_PIECE_BYTES = _NONCE_BYTES + PIECE_BYTES + _TAG_BYTES


class Sealing(io.RawIOBase):
    """Encrypts what is written to it into a file, and knows the hash and the size of the ciphertext."""

    def __init__(self, file: IO[bytes], key: bytes, context: str, *, most: int) -> None:
        self._file, self._cipher, self._context, self._most = file, AESGCM(key), context, most
        self._waiting = bytearray()
        self._index = 0
        self._sha256 = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._waiting += data
        while len(self._waiting) > PIECE_BYTES:  # one piece always stays, because the last piece is marked as the last
            self._seal(self._waiting[:PIECE_BYTES], is_last=False)
            del self._waiting[:PIECE_BYTES]
        return len(data)

    def finish(self) -> None:
        self._seal(self._waiting, is_last=True)

    def _seal(self, plain: bytearray, *, is_last: bool) -> None:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, plain, _name(self._context, self._index, is_last=is_last))
        self._index += 1
        self.size += len(sealed)
        if self.size > self._most:
            raise TooLarge(f"it is larger than {self._most >> 20:,} MiB")
        self._sha256.update(sealed)
        self._file.write(sealed)


def opened(file: IO[bytes], key: bytes, context: str) -> io.BufferedReader:
    """Return a stream of the decrypted content. Reading it raises Invalid if it was not encrypted in this context."""
    return io.BufferedReader(_Pieces(_open(file, AESGCM(key), context)), PIECE_BYTES)


def _open(file: IO[bytes], cipher: AESGCM, context: str) -> Iterator[bytes]:
    index, sealed = 0, file.read(_SEALED_PIECE_BYTES)
    if not sealed:
        raise Invalid("it cannot be decrypted: it is empty")
    while sealed:
        following = file.read(_SEALED_PIECE_BYTES)
        try:
            name = _name(context, index, is_last=not following)
            yield cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name)
        except (InvalidTag, ValueError):
            raise Invalid("it cannot be decrypted: it was changed, or is something else") from None
        index, sealed = index + 1, following


def _name(context: str, index: int, *, is_last: bool) -> bytes:
    return f"{context}:{index}:{'last' if is_last else 'more'}".encode()


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        while not self._rest:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
