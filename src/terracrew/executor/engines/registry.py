"""Finds the adapter of an engine by the name that a job gives."""

from typing import cast

from terracrew import plugins
from terracrew.errors import Invalid
from terracrew.executor.engines.contract import Engine


def get(name: str) -> Engine:
    """Return the engine of this name. Raises Invalid if no package provides one, or if it gives itself another name.

    Modules, jobs and the records on disk all use the registered name, so an engine with two names would not be found again.
    """
    engine = cast("Engine", plugins.load(plugins.ENGINES, name))
    own_name: object = getattr(engine, "name", None)
    if own_name != name:
        raise Invalid(f"the engine that is registered as {name!r} has the name {own_name!r}: both must be equal")
    return engine
