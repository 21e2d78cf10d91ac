"""Stops the processes under test at each sync for as long as it takes to note what a power cut would leave now."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from tests.machine.needs import need

S = TypeVar("S")


class Disk(Protocol[S]):
    """What the processes under test write to, see `synced` and `loop`."""

    is_model: bool

    def synced(self, path: str) -> None:
        """A process syncs this file or directory; the path may be one of /proc/self/fd."""
        ...

    def snapshot(self) -> S: ...


class Moment(NamedTuple, Generic[S]):
    """A power cut that could have happened."""

    number: int
    after: str
    """The name of the file or directory whose sync it follows."""
    snapshot: S
    promises: int
    """How many promises had been made by then."""


class Recorder(Generic[S]):
    def __init__(self, folder: Path, disk: Disk[S], promises: Callable[[], int], ignoring: str = "") -> None:
        """`ignoring` is the name of files whose syncs have no effect, to see that the checks notice."""
        self.moments: list[Moment[S]] = []
        self._disk, self._promises, self._ignoring = disk, promises, ignoring
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "recorder"))
        self._listener.listen(256)
        self.environment = {"LD_PRELOAD": str(build_shim(folder)), "POWERCUT_SOCKET": str(folder / "recorder")}
        if disk.is_model:
            self.environment["POWERCUT_MODEL"] = "1"
        self._thread = threading.Thread(target=self._serve, name="recorder", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Release all waiting processes; no further moments are recorded."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link:
                _, descriptors, _, _ = socket.recv_fds(link, 1, 1)
                for descriptor in descriptors:  # none, if the process was killed before it could send one
                    self._note(f"/proc/self/fd/{descriptor}")
                    os.close(descriptor)
                with contextlib.suppress(OSError):  # the process was killed in the middle
                    link.send(b".")

    def _note(self, path: str) -> None:
        name = str(Path(path).readlink())
        try:
            if not self._ignoring or not name.endswith(self._ignoring):
                self._disk.synced(path)
        except OSError:  # another process removed a file of this directory in the middle
            return
        promises = self._promises()  # first: what is promised from now on may be in no snapshot
        self.moments.append(Moment(len(self.moments) + 1, name, self._disk.snapshot(), promises))


def build_shim(folder: Path) -> Path:
    need(None if shutil.which("cc") else "no C compiler here")
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
