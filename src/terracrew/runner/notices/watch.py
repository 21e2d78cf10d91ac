"""Asks every few seconds whether the end of this machine is announced, and lets the runner drain if it is."""

import asyncio
import logging
import time
from collections.abc import Mapping

import msgspec

from terracrew.errors import Unavailable
from terracrew.runner.config import NoticeSource
from terracrew.runner.departure import Departure, Departures
from terracrew.runner.notices import ec2_metadata
from terracrew.runner.notices.ec2_metadata import AnnouncedEnd, Ec2Metadata

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
RETRY_SECONDS = 60.0
"""How long metadata that has never answered is left alone, if the settings say that it is there."""
MAX_FIRST_FAILURES = 3
"""After so many failures without any answer, a machine that only looks like an instance of EC2 is not asked again."""
_SOURCE = "ec2"


class NoticeWatch:
    def __init__(self, metadata: Ec2Metadata, departures: Departures, *, gives_up: bool) -> None:
        self._metadata, self._departures, self._gives_up = metadata, departures, gives_up
        self._failures = 0
        self._has_answered = False
        self._current: Departure | None = None

    async def run(self) -> None:
        """Ask until the metadata has proved to be out of reach."""
        while not self._is_hopeless:
            is_away = self._failures >= MAX_FIRST_FAILURES and not self._has_answered
            await asyncio.sleep(RETRY_SECONDS if is_away else POLL_SECONDS)
            await self.step()
        log.info("the instance metadata of EC2 cannot be reached from here, so its notices are not watched")

    async def step(self) -> None:
        """Ask once. While the metadata does not answer, what it announced before stays announced."""
        try:
            answers = await asyncio.to_thread(self._metadata.read)
            end = ec2_metadata.announced(answers, now := time.time())
        except (Unavailable, ValueError, msgspec.MsgspecError) as error:
            self._failures += 1
            if self._failures == 1:
                log.warning("notices about this machine cannot be read: %s", error)
            return
        self._failures, self._has_answered = 0, True
        before, self._current = self._current, _departure(self._current, end, now)
        if self._current is not None and (before is None or before.reason != self._current.reason):
            log.warning("this runner takes no more jobs, because its machine goes away: %s", _words(self._current))
        if before is not None and self._current is None:
            log.warning("this machine stays after all: the %s was withdrawn", before.reason)
        self._departures.announce(_SOURCE, self._current)

    @property
    def _is_hopeless(self) -> bool:
        return self._gives_up and not self._has_answered and self._failures >= MAX_FIRST_FAILURES


def find(source: NoticeSource, environment: Mapping[str, str], departures: Departures) -> NoticeWatch | None:
    """Return the watch for this machine; None if nothing is known that would announce its end."""
    if source == "none":
        return None
    address = ec2_metadata.endpoint(environment, is_wanted=source == "ec2")
    if address is None:
        return None
    return NoticeWatch(Ec2Metadata(address), departures, gives_up=source == "auto")


def _departure(known: Departure | None, end: AnnouncedEnd | None, now: float) -> Departure | None:
    """Return what is announced now. A scheduled event may be moved, but a later time of the same spot notice is not believed."""
    if end is None or known is None or known.reason != end.reason:
        return None if end is None else Departure(end.reason, now, end.ends_at)
    if end.is_final and known.ends_at is not None and end.ends_at is not None and end.ends_at >= known.ends_at:
        return known
    return Departure(end.reason, known.noticed_at, end.ends_at)


def _words(end: Departure) -> str:
    at = "" if end.ends_at is None else f", at {time.strftime('%H:%M:%S', time.gmtime(end.ends_at))} UTC"
    return f"{end.reason}{at}"
