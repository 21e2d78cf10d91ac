"""Masks what an executor itself prints, such as the traceback of an error: a message may quote what a module has given it."""

import io
import os
import sys

from terracrew.masking.redactor import Redactor


class MaskedStream(io.TextIOBase):
    """Standard error without secrets. It is written without a buffer, so that nothing is lost if the process is killed."""

    def __init__(self, redactor: Redactor, descriptor: int = 2) -> None:
        self._redactor, self._descriptor = redactor, descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str, /) -> int:
        left = memoryview(self._redactor.mask_text(text).encode(errors="backslashreplace"))
        while left:
            left = left[os.write(self._descriptor, left) :]
        return len(text)


def mask(redactor: Redactor) -> None:
    """Mask everything that this process prints from now on. The redactor may learn of further secrets later."""
    sys.stdout = sys.stderr = MaskedStream(redactor)
