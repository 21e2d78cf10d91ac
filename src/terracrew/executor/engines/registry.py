"""Finds the adapter of an engine by the name that a job gives."""

from typing import cast

from terracrew import plugins
from terracrew.executor.engines.contract import Engine


def get(name: str) -> Engine:
    """Return the engine of this name. Raises Invalid if no package provides one."""
    return cast("Engine", plugins.load(plugins.ENGINES, name))
