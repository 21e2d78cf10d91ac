"""Parses a stream of server-sent events. Its bytes may be split anywhere."""

import re

import msgspec

_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(msgspec.Struct, frozen=True):
    """One event. The client itself adds `open` when the stream was opened or reopened: no later change is missed from then on."""

    name: str
    data: str = ""
    id: str = ""


OPEN = Event("open")


class Parser:
    """Turns bytes into whole events, and remembers the last id, with which a broken stream is resumed."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self._rest = b""
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes of the stream and return the events that they complete."""
        lines = _LINE_END.split(self._rest + chunk)
        self._rest = lines.pop()
        if not self._rest and chunk.endswith(b"\r"):
            # This may be half of a CRLF, so the line waits for the next byte.
            self._rest = lines.pop() + b"\r"
        return [event for line in lines if (event := self._line(line))]

    def restart(self) -> None:
        """Forget the incomplete event that a broken connection left."""
        self._rest, self._name, self._data = b"", "", []

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._data.append(value)
            case b"event":
                self._name = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self.last_id = value.decode(errors="replace")
            case _:
                pass  # a comment, which keeps the connection alive, or a field we do not know
        return None

    def _dispatch(self) -> Event | None:
        name, data = self._name or "message", self._data
        self._name, self._data = "", []
        if not data:
            return None
        return Event(name, b"\n".join(data).decode(errors="replace"), self.last_id)
