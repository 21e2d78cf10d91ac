"""Starts real processes of another version, or with shorter waits: the same program with a few constants changed."""

import importlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.system import Process, System, eventually


def constants(**values: Any) -> dict[str, str]:
    """The environment of such a process; names are `module__NAME`, below `terracrew`."""
    places = {f"terracrew.{name.replace('__', '.')}": value for name, value in values.items()}
    for place in places:  # one that has moved would change nothing, or end the process without a word here
        module, _, name = place.rpartition(".")
        assert hasattr(importlib.import_module(module), name), f"there is no constant {place}"
    path = [str(Path(__file__).parent / "shifted"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path)), "CONSTANTS": json.dumps(places)}


def speaking(oldest: int, newest: int) -> dict[str, str]:
    """The environment of a process that speaks these versions of the protocol."""
    return constants(protocol__version__OLDEST_VERSION=oldest, protocol__version__NEWEST_VERSION=newest)


@contextmanager
def environment(system: System, more: dict[str, str]) -> Generator[None]:
    """For what the system starts meanwhile."""
    before = system.env
    system.env = before | more
    try:
        yield
    finally:
        system.env = before


def ended(process: Process) -> int:
    """The exit code of a process that ends by itself."""
    return eventually(lambda: None if (code := process.poll()) is None else [code], what=f"the end of {process.name}")[
        0
    ]
