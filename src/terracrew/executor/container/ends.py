"""How an attempt in a container without a volume ended, as its first process tells the runner.

| exit code      | the executor                              | what it left                                    |
|----------------|-------------------------------------------|-------------------------------------------------|
| `DELIVERED`    | ended by itself                           | The server has everything.                      |
| `SALVAGED`     | died; the first process delivered         | The server has everything.                      |
| `UNDELIVERED`  | began                                     | The server refused the rest for good.           |
| `ABANDONED`    | began, and died or could not deliver      | It was not delivered, and is lost.              |
| `NOT_BEGUN`    | has not begun, and will not               | Nothing.                                        |
| another one    | may have begun: the first process was killed, or nobody saw its end | It is lost.           |

A place that keeps a few bytes of a container's own words, as Kubernetes does, also has the files that the runner needs. Another
place has only the exit code.
"""

from pathlib import Path

import msgspec

from terracrew.attempt import delivered, exit_codes, files, ownership
from terracrew.system import durable

MAX_REPORT_BYTES = 4096
"""Kubernetes keeps this much."""
MAX_LINE_CHARACTERS = 500
UNKNOWN_EXIT_CODE = 255
"""What Docker and containerd report for a container that ran and that they find dead after a restart of themselves or of the machine."""
UNKNOWN_END = "its container was found dead, as after a restart of its machine or of the container runtime"
_NEVER_BEGUN_CODES = frozenset({1, 2, 125, 126, 127, exit_codes.NOT_BEGUN, exit_codes.TICKET_REFUSED})
"""The first process ends with none of the first five itself: an interpreter without Terracrew and a container runtime do."""


class ContainerEnd(msgspec.Struct, frozen=True):
    executor: int | None = None
    """The first executor's exit code; a negative number is a signal, and None means that nobody saw its end."""
    pid: str = ""
    done: str = ""
    refused: str = ""
    """The content of these files of the attempt's directory (`attempt/files.py`); empty if there is no such file."""
    last_line: str = ""
    """The last line of the executor's own log, if not everything was delivered."""
    was_interrupted: bool = False
    """Whether somebody sent a signal to the first process. Only who watches the container can know why."""

    @property
    def has_begun(self) -> bool:
        return self.pid != ""

    @property
    def exit_code(self) -> int:
        """The exit code of the container."""
        if not self.has_begun:
            return exit_codes.NOT_BEGUN
        if self.done:
            return exit_codes.DELIVERED if self.executor == exit_codes.DELIVERED else exit_codes.SALVAGED
        return exit_codes.UNDELIVERED if self.refused else exit_codes.ABANDONED

    def write_into(self, directory: Path) -> None:
        """Write the files that the runner needs into its own directory of the attempt, durably; `done` last."""
        for name, content in ((files.PID, self.pid), (files.REFUSED, self.refused), (files.DONE, self.done)):
            if content:
                durable.write(directory / name, content.encode())


def of(directory: Path, executor: int | None) -> ContainerEnd:
    """Return the end of an attempt all of whose processes have ended."""
    is_done = delivered.is_done(directory)
    return ContainerEnd(
        executor,
        _text(directory / files.PID),
        _text(directory / files.DONE) if is_done else "",
        _text(directory / files.REFUSED),
        "" if is_done else delivered.last_log_line(directory)[:MAX_LINE_CHARACTERS],
    )


def report(end: ContainerEnd, path: Path | None) -> int:
    """Write the end for whoever watches the container, and return the container's exit code."""
    if path is not None:
        try:
            path.write_bytes(encode(end))
        except OSError as error:  # the exit code says the rest
            print(f"{path} cannot be written: {error}")
    return end.exit_code


def encode(end: ContainerEnd) -> bytes:
    content = msgspec.json.encode(end)
    if len(content) > MAX_REPORT_BYTES:
        content = msgspec.json.encode(msgspec.structs.replace(end, last_line=""))
    return content


def decode(text: str) -> ContainerEnd | None:
    """Return what the first process reported; None if it was ended before it could, or something else wrote this."""
    try:
        return msgspec.json.decode(text, type=ContainerEnd)
    except ValueError:
        return None


def of_exit_code(code: int) -> ContainerEnd | None:
    """Return the end as far as the exit code of the container tells it; None if the first process was ended before it could.

    The number of the last event is not known, so the server does not take such an attempt for delivered if it was salvaged.
    """
    if code in _NEVER_BEGUN_CODES:
        return ContainerEnd(exit_codes.NOT_BEGUN)
    signed = ownership.signature(ownership.UNKNOWN_PROCESS)
    if code == exit_codes.DELIVERED:
        return ContainerEnd(code, signed, done="0")
    if code == exit_codes.UNDELIVERED:
        return ContainerEnd(code, signed, refused=" ")
    return ContainerEnd(None, signed) if code in (exit_codes.SALVAGED, exit_codes.ABANDONED) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
