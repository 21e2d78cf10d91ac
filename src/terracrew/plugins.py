"""Finds plug-ins by their names: those of Terracrew itself, and those of other packages through Python entry points.

A package of somebody else registers, say, an engine in its own pyproject.toml:

    [project.entry-points."terracrew.engines"]
    mine = "their_package.engine:ENGINE"

Nothing is imported before it is asked for by its name, and the metadata of installed packages is read only for a name that
Terracrew does not have itself. A plug-in therefore cannot replace a built-in one and does not slow anything down.
"""

import importlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from terracrew.errors import Invalid

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal["terracrew.dispatchers", "terracrew.engines", "terracrew.sources"]
DISPATCHERS: Group = "terracrew.dispatchers"
ENGINES: Group = "terracrew.engines"
SOURCES: Group = "terracrew.sources"
_NAME = re.compile("[a-z][a-z0-9-]{0,31}")
BUILT_IN: dict[Group, dict[str, str]] = {
    DISPATCHERS: {
        "local": "terracrew.runner.dispatch.local.dispatcher:PLUGIN",
        "docker": "terracrew.runner.dispatch.docker.dispatcher:PLUGIN",
        "ecs": "terracrew.runner.dispatch.ecs.dispatcher:PLUGIN",
        "kubernetes": "terracrew.runner.dispatch.kubernetes.dispatcher:PLUGIN",
    },
    ENGINES: {
        "tofu": "terracrew.executor.engines.hcl.engine:TOFU_ENGINE",
        "terraform": "terracrew.executor.engines.hcl.engine:TERRAFORM_ENGINE",
        "pulumi": "terracrew.executor.engines.pulumi.engine:ENGINE",
    },
    SOURCES: {
        "archive": "terracrew.executor.sources.archive:SOURCE",
        "git": "terracrew.executor.sources.git.fetcher:SOURCE",
        "local": "terracrew.executor.sources.local:SOURCE",
        "registry": "terracrew.executor.sources.registry.fetcher:SOURCE",
    },
}
"""Written as text, so that a process which only needs the names does not import what they stand for."""


def is_name(name: str) -> bool:
    """Return whether a module or a setting can name a plug-in like this."""
    return _NAME.fullmatch(name) is not None


def names(group: Group) -> list[str]:
    """Return all names of a group, the built-in ones first."""
    return [*BUILT_IN[group], *(name for name in _registered(group) if name not in BUILT_IN[group])]


def has(group: Group, name: str) -> bool:
    return name in BUILT_IN[group] or name in _registered(group)


@lru_cache
def load(group: Group, name: str) -> Any:
    """Import what is registered under this name. Raises Invalid if there is none or it cannot be imported."""
    kind = group.rpartition(".")[2].removesuffix("s")
    if place := BUILT_IN[group].get(name):
        module, _, attribute = place.partition(":")
        return getattr(importlib.import_module(module), attribute)
    if (found := _registered(group).get(name)) is None:
        raise Invalid(f"there is no {kind} {name!r} here; installed: {', '.join(names(group))}")
    try:
        return found.load()
    except Exception as error:  # the module of somebody else can raise anything while it is imported
        raise Invalid(f"the {kind} {name!r} cannot be loaded from {found.value}: {error}") from error


def preload(group: Group) -> None:
    """Import the built-in plug-ins of a group. Others are imported by the process that asks for them: one that starts a thread
    while it is imported must not do so in a process that forks."""
    for name in BUILT_IN[group]:
        load(group, name)


def forget() -> None:
    """Read the metadata of installed packages again: a test has changed what is installed."""
    load.cache_clear()
    _registered.cache_clear()


@lru_cache
def _registered(group: Group) -> dict[str, "EntryPoint"]:
    from importlib.metadata import entry_points  # it takes longer to import than many a process has

    return {point.name: point for point in entry_points(group=group)}
