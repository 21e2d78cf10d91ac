"""Follows the file that the engine prints into and turns new output into log events. The kernel wakes it when the file changes."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Generator
from pathlib import Path

from terracrew.executor.delivery.recorder import Piece, Recorder
from terracrew.executor.disk_reserve import DISK_FULL_ERRORS, FileReserve, give_back
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.output.lines import Cutter
from terracrew.system import file_changes
from terracrew.system.file_changes import FileChanges

OPEN_LINE_SECONDS = 1.0
RESERVE_AHEAD_BYTES = 2 << 20
"""The disk space that is reserved ahead of the engine: more than it can print between two checks, so it is paused in time."""
_READ_BYTES = 1 << 18
_MIN_GIVE_BACK_BYTES = 1 << 20
RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.05

_FULL = "The disk of this runner is full. The engine is paused until space is free again; nothing is lost"
_ROOM_AGAIN = "There is space on the runner's disk again; the engine continues"


class EngineOutput:
    """Follows the output of engines. An engine writes to a file and not to a pipe, so that it can outlive its executor.

    A file does not make its writer wait, and output that cannot be written is lost. So disk space is reserved ahead of the
    engine, and when none is left to reserve, the engine is paused until there is some.
    """

    def __init__(self, path: Path, recorder: Recorder) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        """The descriptor that an engine gets as its standard output and standard error."""
        self._path, self._recorder = path, recorder
        self._reading = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._position = recorder.offsets.position
        self._cutter = Cutter(recorder.redactor)
        self._waiting: list[Piece] = []  # pieces that could not be written because the disk was full
        self._timer: asyncio.TimerHandle | None = None
        self._poll: asyncio.TimerHandle | None = None
        self._changes: FileChanges | None = None
        self._is_closed = False
        self._ahead = FileReserve(self.descriptor, RESERVE_AHEAD_BYTES)
        self._is_full = False
        self._given_back = 0
        self._engine: EngineProcess | None = None

    @contextlib.contextmanager
    def feeding(self, engine: EngineProcess) -> Generator[None]:
        """Keep space reserved, and pause the engine if the disk is full, while this engine prints into the file."""
        self._engine = engine
        try:
            self._look_for_room()
            if self._is_full:
                engine.pause()
            yield
        finally:
            self._engine = None
            self._give_up_ahead()  # no engine is printing, so waiting records can use the space

    def follow(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(self._step)
        try:
            self._changes = FileChanges(self._path, file_changes.IN_MODIFY)
        except OSError:
            self._poll = loop.call_later(_POLL_SECONDS, self._look)
            return
        loop.add_reader(self._changes.fileno(), self._wake)

    async def drain(self) -> None:
        """Read all output, including an open line. This waits while the disk is full.

        An open line ends here, because the output of the next command belongs to another step.
        """
        while True:
            while self._read():
                pass
            if not self._waiting:
                self._waiting = self._cutter.flush(is_final=True)
            if self._write() and self._recorder.has_open_line:
                self._waiting = [Piece(b"\n", 0)]
            if self._write():
                self._look_for_room()
                return
            self._look_for_room()
            await asyncio.sleep(RETRY_SECONDS)

    def close(self) -> None:
        self._is_closed = True
        for handle in (self._timer, self._poll):
            if handle:
                handle.cancel()
        if self._changes:
            asyncio.get_running_loop().remove_reader(self._changes.fileno())
            self._changes.close()
        os.close(self._reading)
        self._give_up_ahead()
        os.close(self.descriptor)

    def _wake(self) -> None:
        assert self._changes is not None
        self._changes.clear()
        self._step()

    def _look(self) -> None:
        self._step()
        self._poll = asyncio.get_running_loop().call_later(_POLL_SECONDS, self._look)

    def _step(self) -> None:
        """Read once, then let the event loop continue, so that an engine with much output does not delay acknowledgements."""
        if self._is_closed:
            return
        has_more = self._read()
        self._look_for_room()
        if has_more:
            asyncio.get_running_loop().call_soon(self._step)
        elif self._is_full:
            self._set_timer(RETRY_SECONDS, self._step)
        elif (
            self._cutter.has_open_line and self._timer is None
        ):  # the time counts from the start of the line, not from its last character
            self._set_timer(OPEN_LINE_SECONDS, self._flush)

    def _set_timer(self, seconds: float, action: Callable[[], None]) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, action)

    def _flush(self) -> None:
        self._timer = None
        self._waiting += self._cutter.flush()
        self._write()
        self._step()

    def _read(self) -> bool:
        """Read one chunk. Returns whether there may be more."""
        if not self._write():
            return False
        data = os.pread(self._reading, _READ_BYTES, self._position)
        self._position += len(data)
        self._waiting = self._cutter.feed(data) if data else []
        if self._waiting and self._timer:
            self._timer.cancel()
            self._timer = None
        return self._write() and len(data) == _READ_BYTES

    def _write(self) -> bool:
        """Record the waiting pieces. Returns False if the disk is full; reading then stops, and nothing is dropped."""
        done = 0
        try:
            for piece in self._waiting:
                self._recorder.output(piece)
                done += 1
        except OSError as error:
            if error.errno not in DISK_FULL_ERRORS:
                raise
        del self._waiting[:done]
        return not self._waiting

    def _look_for_room(self) -> None:
        is_full = not self._has_room() and not (self._give_back() and self._has_room())
        if is_full == self._is_full:
            return
        self._is_full = is_full
        if self._engine:
            self._engine.pause() if is_full else self._engine.resume()
        with contextlib.suppress(OSError):  # it is logged if there is space for it
            self._recorder.say(_FULL if is_full else _ROOM_AGAIN)

    def _has_room(self) -> bool:
        return self._write() and (self._engine is None or self._ahead.keep(os.fstat(self.descriptor).st_size))

    def _give_up_ahead(self) -> None:
        os.ftruncate(self.descriptor, os.fstat(self.descriptor).st_size)
        self._ahead.forget()

    def _give_back(self) -> bool:
        """Free the part of the output that is in the outbox as events, once the outbox is synced."""
        position = self._recorder.offsets.position
        if position - self._given_back < _MIN_GIVE_BACK_BYTES:
            return False
        self._recorder.outbox.sync()
        self._recorder.offsets.sync()
        give_back(self.descriptor, position)
        self._given_back = position
        return True
