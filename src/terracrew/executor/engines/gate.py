"""Makes an engine wait after it has loaded, at the file that it reads first (ADR 0063).

The name that the engine is given for this file is a link: first to a pipe, from which the engine reads nothing until the gate is
opened, and then to the file itself, for whatever the engine starts later. An engine that reaches the gate late finds the file.
The executor alone holds the end of the pipe that is written to. If it dies, the engine finds an empty file and goes on.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from terracrew.attempt.engine_directory import open_produced
from terracrew.errors import Invalid
from terracrew.executor.engines import engine_user

_MAX_BYTES = 4096
"""The largest file that is passed through the pipe. Every pipe takes as much without a reader."""


class Gate:
    def __init__(self, link: Path, variable: str, file: Path) -> None:
        """Close the gate. `variable` is the environment variable that names the file."""
        self._link, self._variable, self._file = link, variable, file
        self.descriptor, self._writing = os.pipe()
        """The end of the pipe that the engine inherits."""
        try:
            if (user := engine_user.chosen()) is not None:
                os.fchown(self.descriptor, user.uid, user.gid)
            self._link_to(f"/proc/self/fd/{self.descriptor}")
        except OSError:
            self.has_started()
            self.close()
            raise

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        return {**base, self._variable: str(self._link)}

    def has_started(self) -> None:
        """The engine has its own end of the pipe now, or could not be started."""
        os.close(self.descriptor)

    def open(self) -> None:
        """Let the engine go on. Raises Invalid or OSError if the file cannot be passed on; the caller then ends the engine."""
        content = _content(self._file)
        self._link_to(str(self._file))
        os.set_blocking(self._writing, False)
        os.write(self._writing, content)
        self.close()

    def close(self) -> None:
        """Give up the end that is written to, once the engine goes on or has ended."""
        os.close(self._writing)

    def _link_to(self, target: str) -> None:
        new = self._link.with_suffix(".new")
        os.symlink(target, new)
        os.replace(new, self._link)


def make(link: Path, variable: str, environment: Mapping[str, str]) -> Gate | None:
    """Return a closed gate; None if the file is none that could be passed on unchanged."""
    file = Path(environment.get(variable, ""))
    try:
        if not file.is_absolute():
            return None
        _content(file)
    except Invalid:
        return None
    return Gate(link, variable, file)


def _content(file: Path) -> bytes:
    """Return what is passed on. Raises Invalid if it is too large, or if the engine may not read the file itself."""
    with open_produced(file, follows_link=True) as opened:
        content = opened.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES or not engine_user.can_read(opened.fileno()):
            raise Invalid(f"{file} cannot be passed to a waiting engine")
    return content
