"""Finds what this runner announces to the server: its dispatchers, what jobs may ask each of them for, and their engines."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from terracrew import backoff
from terracrew.protocol.dispatcher_choice import OfferedDispatcher
from terracrew.runner.connection import announced_engines
from terracrew.runner.connection.announced_engines import AnnouncedEngines
from terracrew.runner.dispatch.dispatchers import OpenedDispatcher
from terracrew.toolchains import cache, specs

log = logging.getLogger(__name__)

ENGINES_SECONDS = 10.0
"""How long the connection waits for a dispatcher that has to pull an image, or whose daemon does not answer."""
INSTALLED_POLL_SECONDS = 10.0
"""How often a runner looks whether somebody has installed an engine with `terracrew engine install`."""
_NONE_KNOWN = AnnouncedEngines({}, {})


class AnnouncedDispatchers(msgspec.Struct, frozen=True):
    engines: AnnouncedEngines
    """Those of the default dispatcher."""
    offers: list[OfferedDispatcher]
    """All dispatchers that have answered, and the default one, which is the first."""


class Announcements:
    """Asks every dispatcher for its engines. One that is slow to answer does not keep the runner from connecting, since the server
    takes the attempts of a runner without a connection for lost: it is announced when it has answered."""

    def __init__(self, opened: Sequence[OpenedDispatcher]) -> None:
        self._opened = opened
        self._asked: dict[str, asyncio.Task[Mapping[str, list[str]] | None]] = {}
        self._awaited: set[asyncio.Task[Any]] = set()
        """The questions that had no answer when the last announcement was made."""
        self._installed: list[list[str]] | None = None
        """The versions that the cache of engines had at the last announcement; None if no dispatcher uses those of this machine."""

    async def find(self, extra_paths: Sequence[str]) -> AnnouncedDispatchers:
        """Return what is known after a short time. An answer that came too late for the last announcement is used now, and a
        dispatcher that was too slow before is not waited for again: attempts that are starting need the connection soon."""
        asked_now = set[asyncio.Task[Any]]()
        for each in self._opened:
            known = self._asked.get(each.name)
            if known is None or (known.done() and known not in self._awaited):
                self._asked[each.name] = asyncio.create_task(each.dispatcher.engines())
                asked_now.add(self._asked[each.name])
        if asked_now:
            await asyncio.wait(asked_now, timeout=ENGINES_SECONDS)
        self._awaited = {asked for asked in self._asked.values() if not asked.done()}
        answers = {name: asked.result() for name, asked in self._asked.items() if self._has_answered(name, asked)}
        uses_machine = None in answers.values()
        self._installed = await asyncio.to_thread(_installed) if uses_machine else None
        of_machine = await announced_engines.find(extra_paths) if uses_machine else _NONE_KNOWN
        engines = {name: of_machine if own is None else announced_engines.of(own) for name, own in answers.items()}
        default = engines.setdefault(self._opened[0].name, _NONE_KNOWN)
        offers = [
            msgspec.structs.replace(each.offer, engines=engines[each.name].versions)
            for each in self._opened
            if each.name in engines
        ]
        return AnnouncedDispatchers(default, offers)

    def _has_answered(self, name: str, asked: asyncio.Task[Any]) -> bool:
        if asked in self._awaited:
            log.warning("the engines of the dispatcher %s are not known yet; they are announced when they are", name)
        elif error := asked.exception():
            log.error("the dispatcher %s cannot say which engines it has", name, exc_info=error)
        else:
            return True
        return False

    async def changed(self) -> None:
        """Return when a dispatcher that was not announced, or without engines, has answered, or an engine was installed here."""
        watching = asyncio.create_task(self._watch_installed())
        try:
            await asyncio.wait({watching, *self._awaited}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()

    async def _watch_installed(self) -> None:
        if self._installed is None:
            await asyncio.Event().wait()
        while await asyncio.to_thread(_installed) == self._installed:  # noqa: ASYNC110 - another process installs
            await asyncio.sleep(backoff.jittered(INSTALLED_POLL_SECONDS))

    def close(self) -> None:
        for asked in self._asked.values():
            asked.cancel()


def _installed() -> list[list[str]]:
    """Return the versions of each engine that Terracrew has installed on this machine."""
    return [[version for version, _ in cache.installed(spec)] for spec in specs.ENGINES.values()]
