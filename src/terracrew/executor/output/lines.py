"""Cuts an engine's output into the texts of log events: whole lines if possible, masked, and valid UTF-8."""

from terracrew.executor.delivery.recorder import Piece
from terracrew.masking.redactor import Redactor
from terracrew.protocol.events import MAX_TEXT_BYTES

_MAX_CHARACTER_BYTES = 4


class Cutter:
    """Cuts output into pieces, and holds the incomplete last line."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._pending = b""

    @property
    def has_open_line(self) -> bool:
        return bool(self._pending)

    def feed(self, data: bytes) -> list[Piece]:
        """Return all complete lines, in blocks of up to 64 KiB, and as much of a longer line as can be cut without splitting a secret."""
        data = self._pending + data if self._pending else data
        pieces: list[Piece] = []
        position = 0
        while True:
            end = data.rfind(b"\n", position, position + MAX_TEXT_BYTES) + 1
            if not end:
                if len(data) - position <= MAX_TEXT_BYTES:
                    break
                end = self._cut(data, position, position + MAX_TEXT_BYTES)
            elif self._redactor.has_lines:
                safe = self._safe_end(data, position, end)
                if safe == position and len(data) - position <= MAX_TEXT_BYTES:
                    break  # these lines may be the start of a secret
                end = safe if safe > position else end
            piece = self._piece(data, position, end)
            pieces.append(piece)
            position += piece.size
        self._pending = data[position:]
        return pieces

    def flush(self, *, is_final: bool = False) -> list[Piece]:
        """Return what an open line contains so far. With `is_final`, this includes the incomplete start of a secret or of a character."""
        pieces: list[Piece] = []
        data, position = self._pending, 0
        end = len(data) if is_final else self._cut(data, 0, len(data), is_open=True)
        while position < end:
            piece = self._piece(data, position, end)
            pieces.append(piece)
            position += piece.size
        self._pending = data[position:]
        return pieces

    def _cut(self, data: bytes, start: int, end: int, *, is_open: bool = False) -> int:
        """Return a position near `end` that is neither inside a character nor inside a secret. Of an open line, it may be the start."""
        for back in range(1, min(_MAX_CHARACTER_BYTES, end - start) + 1):
            byte = data[end - back]
            if byte >= 0xC0:  # the first byte of a character; is all of it before the end?
                length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                end -= back if length > back else 0
                break
            if byte < 0x80:
                break
        safe = self._safe_end(data, start, end)
        # If there is no safe position, a text repeats a secret over and over, and each piece of it is masked by itself.
        return safe if safe > start or is_open else end

    def _safe_end(self, data: bytes, start: int, end: int) -> int:
        """Return the last position up to `end` that is not inside a secret; `start` if there is none."""
        return start + self._redactor.safe_end(data[start : end + self._redactor.longest], end - start)

    def _piece(self, data: bytes, start: int, end: int) -> Piece:
        """Return a masked piece of valid UTF-8. Replacing invalid bytes can triple the length; then a shorter part is taken."""
        while True:
            text = _mend(self._redactor.mask(data[start:end]))
            if len(text) <= MAX_TEXT_BYTES:
                return Piece(text, end - start)
            middle = (start + end) // 2
            end = data.rfind(b"\n", start, middle) + 1 or max(self._cut(data, start, middle), start + 1)


def _mend(text: bytes) -> bytes:
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode(errors="replace").encode()
    return text
