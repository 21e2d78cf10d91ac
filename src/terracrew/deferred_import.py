"""Modules that are imported when they are used first, for a process that must do something else before that.

An executor in a container starts its engine first, and imports what it needs to talk to others while the engine starts. A process
that executors are forked from imports everything beforehand (`load_all`).
"""

import importlib
from typing import Any

_names: set[str] = set()


class _Deferred:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        """Python calls this only for an attribute that is not set yet."""
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


def module(name: str) -> Any:
    """Return something that has the attributes of the module, and imports it when one of them is read."""
    _names.add(name)
    return _Deferred(name)


def load_all() -> None:
    """Import every module that was deferred."""
    while _names:
        importlib.import_module(_names.pop())
