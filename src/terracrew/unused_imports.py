"""Loads a library without modules that it imports and that this process does not use, because they take long to load.

It is for modules that the library uses only inside of functions. A process that calls such a function imports the module first.
"""

import contextlib
import importlib
import sys
from collections.abc import Generator
from types import ModuleType
from typing import Any


class _Skipped(ModuleType):
    """Stands for a module while a library is loaded. Another thread may ask it for something, and gets the module itself."""

    def __getattr__(self, attribute: str) -> Any:
        _forget(self)
        return getattr(importlib.import_module(self.__name__), attribute)


@contextlib.contextmanager
def skipped(*names: str) -> Generator[None]:
    """Let what is imported in this block import these modules without loading them, unless they are loaded already."""
    stand_ins = [_Skipped(name) for name in names if name not in sys.modules]
    sys.modules.update({each.__name__: each for each in stand_ins})
    try:
        yield
    finally:
        for each in stand_ins:
            _forget(each)


def _forget(stand_in: _Skipped) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]
