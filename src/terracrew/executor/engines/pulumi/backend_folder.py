"""The folder of Pulumi's `file://` backend, which has one stack: that of the attempt's module.

It is made anew before each command, so that no lock of a killed engine is left, and no link that a program put there.
"""

import os
import shutil
from pathlib import Path

_META = b"version: 1\n"
"""Says that stacks are in the folders of their projects. Without this file, Pulumi expects the layout of its early versions."""


class BackendFolder:
    def __init__(self, folder: Path, project: str, stack: str) -> None:
        self._folder = folder
        self.url = f"file://{folder}"
        self.stack_file = folder / ".pulumi" / "stacks" / project / f"{stack}.json"

    def place(self, checkpoint: bytes) -> None:
        if self._folder.is_symlink():
            self._folder.unlink()
        elif self._folder.exists():
            shutil.rmtree(self._folder)
        self.stack_file.parent.mkdir(mode=0o700, parents=True)
        _write(self._folder / ".pulumi" / "meta.yaml", _META)
        _write(self.stack_file, checkpoint)


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
