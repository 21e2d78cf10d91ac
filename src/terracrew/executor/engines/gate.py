"""Makes an engine wait after it has loaded, at the file that it reads first (ADR 0063).

The name that the engine is given for this file is a link: first to a pipe, from which the engine reads nothing until the gate is
opened, and then to the file itself, for whatever the engine starts later. An engine that reaches the gate late finds the file.
The executor alone holds the end of the pipe that is written to. If it dies, the engine finds an empty file and goes on.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from terracrew.executor.engines import engine_user

_MAX_BYTES = 32 << 10
"""The largest file that is passed through the pipe. A pipe takes twice as much without a reader."""


class Gate:
    def __init__(self, link: Path, variable: str, file: Path) -> None:
        """Close the gate. `variable` is the environment variable that names the file."""
        self._link, self._variable, self._file = link, variable, file
        self.descriptor, self._writing = os.pipe()
        """The end of the pipe that the engine inherits."""
        if (user := engine_user.chosen()) is not None:
            os.fchown(self.descriptor, user.uid, user.gid)
        self._link_to(f"/proc/self/fd/{self.descriptor}")

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        return {**base, self._variable: str(self._link)}

    def has_started(self) -> None:
        """The engine has its own end of the pipe now, or could not be started."""
        os.close(self.descriptor)

    def open(self) -> None:
        content = self._file.read_bytes()[:_MAX_BYTES]
        self._link_to(str(self._file))
        try:
            os.write(self._writing, content)
        except BrokenPipeError:  # the engine has ended, which its exit code will tell
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Give up the pipe. No engine waits there any more."""
        os.close(self._writing)

    def _link_to(self, target: str) -> None:
        new = self._link.with_suffix(".new")
        os.symlink(target, new)
        os.replace(new, self._link)


def make(link: Path, variable: str, environment: Mapping[str, str]) -> Gate | None:
    """Return a closed gate; None if the file is none that could be passed on unchanged."""
    file = Path(environment.get(variable, ""))
    try:
        is_small = file.is_absolute() and file.is_file() and file.stat().st_size <= _MAX_BYTES
    except OSError:
        return None
    return Gate(link, variable, file) if is_small and engine_user.can_read(file) else None
