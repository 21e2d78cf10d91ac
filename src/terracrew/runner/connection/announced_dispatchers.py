"""Finds what this runner announces to the server: its dispatchers, what jobs may ask each of them for, and their engines."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from terracrew.protocol.dispatcher_choice import OfferedDispatcher
from terracrew.runner.connection import announced_engines
from terracrew.runner.connection.announced_engines import AnnouncedEngines
from terracrew.runner.dispatch.dispatchers import OpenedDispatcher

log = logging.getLogger(__name__)

_ENGINES_SECONDS = 60.0
"""How long a dispatcher besides the default one may take to find its engines before it is left out."""


class AnnouncedDispatchers(msgspec.Struct, frozen=True):
    engines: AnnouncedEngines
    """Those of the default dispatcher."""
    offers: list[OfferedDispatcher]
    """All dispatchers, the default one first."""


async def find(opened: Sequence[OpenedDispatcher], extra_paths: Sequence[str]) -> AnnouncedDispatchers:
    machine = _OfMachine(extra_paths)
    default, *others = opened
    found = await asyncio.gather(machine.engines_of(default), *(_bounded(machine, each) for each in others))
    offers = [
        msgspec.structs.replace(each.offer, engines=engines.versions)
        for each, engines in zip(opened, found, strict=True)
        if engines is not None
    ]
    assert found[0] is not None
    return AnnouncedDispatchers(found[0], offers)


class _OfMachine:
    """The engines of this machine, which are looked for once, and only if a dispatcher has no others."""

    def __init__(self, extra_paths: Sequence[str]) -> None:
        self._extra_paths, self._lock = extra_paths, asyncio.Lock()
        self._found: AnnouncedEngines | None = None

    async def engines_of(self, opened: OpenedDispatcher) -> AnnouncedEngines:
        has_own = await opened.dispatcher.engines()
        if has_own is not None:
            return announced_engines.of(has_own)
        async with self._lock:
            if self._found is None:
                self._found = await announced_engines.find(self._extra_paths)
            return self._found


async def _bounded(machine: _OfMachine, opened: OpenedDispatcher) -> AnnouncedEngines | None:
    try:
        async with asyncio.timeout(_ENGINES_SECONDS):
            return await machine.engines_of(opened)
    except TimeoutError:
        log.warning(
            "the dispatcher %s is not offered until the next connection: its engines were not found within %g s",
            opened.name,
            _ENGINES_SECONDS,
        )
        return None
