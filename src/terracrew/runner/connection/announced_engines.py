"""Finds the engines that this runner announces to the server, each with its versions.

The server gives a job only to runners that announce its engine. An engine counts if its adapter is installed, as a part of
Terracrew or of another package, and finds a program that runs.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec

from terracrew import plugins
from terracrew.errors import EngineMissing
from terracrew.executor.engines import contract
from terracrew.protocol import limits
from terracrew.toolchains import discovery
from terracrew.toolchains.discovery import FoundEngine

log = logging.getLogger(__name__)


class AnnouncedEngines(msgspec.Struct, frozen=True):
    defaults: dict[str, str]
    """Each engine with the version that a job uses if its module accepts any."""
    versions: dict[str, list[str]]
    """Each engine with all versions that this machine has, the default one first."""


def of(versions: Mapping[str, list[str]]) -> AnnouncedEngines:
    """Return what a dispatcher says of its executors, without what the hub would refuse."""
    usable = {
        name: [each for each in found if limits.is_label(each)][: limits.MAX_ENGINE_VERSIONS]
        for name, found in versions.items()
        if plugins.is_name(name)
    }
    kept = {name: found for name, found in list(usable.items())[: limits.MAX_ENGINES] if found}
    return AnnouncedEngines({name: found[0] for name, found in kept.items()}, kept)


async def find(extra_paths: Sequence[str]) -> AnnouncedEngines:
    return await asyncio.to_thread(_find, extra_paths)


def _find(extra_paths: Sequence[str]) -> AnnouncedEngines:
    found: dict[str, list[str]] = {}
    for name in plugins.names(plugins.ENGINES):
        if not plugins.is_name(name):
            log.warning("the engine %r is not used: no module can have this name", name)
        elif len(found) == limits.MAX_ENGINES:
            log.warning("the engine %r is not used: a runner has at most %d engines", name, limits.MAX_ENGINES)
        elif versions := _versions(name, extra_paths):
            found[name] = versions
    return AnnouncedEngines({name: versions[0] for name, versions in found.items()}, found)


def _versions(name: str, extra_paths: Sequence[str]) -> list[str]:
    """Return the versions of an engine that run, without those that the hub would refuse."""
    try:
        engines = _find_all(name, extra_paths)
        usable = [each for each in engines if _is_usable(each)]
    except EngineMissing as error:
        log.debug("%s", error.message)
        return []
    except Exception:  # the code of another package must not keep the runner from serving other engines
        log.exception("the engine %r is not used", name)
        return []
    if list(engines[:1]) != usable[:1]:
        return []  # a job that accepts any version would get the one that does not run
    return list(dict.fromkeys(each.version for each in usable))[: limits.MAX_ENGINE_VERSIONS]


def _find_all(name: str, extra_paths: Sequence[str]) -> Sequence[FoundEngine]:
    """Find an engine as its adapter does. Those of Terracrew itself are not loaded for it: with what they import, they take 5 MB."""
    if name in plugins.BUILT_IN[plugins.ENGINES]:
        return discovery.find_versions(name, extra_paths)
    return contract.engine_named(name).find_all(extra_paths)


def _is_usable(engine: FoundEngine) -> bool:
    if not limits.is_label(engine.version):
        problem = f"the version that {engine.path} prints is not a short text"
    elif not discovery.answers(engine):
        problem = f"{engine.path} does not answer when it is asked for its version"
    else:
        return True
    log.warning("the engine %r is not used: %s", engine.name, problem)
    return False
