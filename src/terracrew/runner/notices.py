"""Asks every few seconds whether the end of this machine is announced, and lets the runner drain if it is.

The instance metadata of EC2 (IMDSv2) is asked, on machines that are known to be instances of EC2. Other machines send no request:
the address is link-local, and something else may answer there.
"""

import asyncio
import contextlib
import http.client
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from terracrew.errors import Unavailable
from terracrew.runner.config import NoticeSource
from terracrew.runner.departure import Departure, Departures

log = logging.getLogger(__name__)

ENDPOINT = "http://169.254.169.254"
ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
"""The variable by which all programs for AWS find the metadata elsewhere, for example by IPv6."""
_DISABLED_VARIABLE = "AWS_EC2_METADATA_DISABLED"
_TOKEN_SECONDS = 21_600
_TIMEOUT_SECONDS = 2.0
_MAX_BYTES = 64 << 10
_PAGES = {
    "spot": "spot/instance-action",
    "rebalance": "events/recommendations/rebalance",
    "scheduled": "events/maintenance/scheduled",
    "lifecycle": "autoscaling/target-lifecycle-state",
}
_VENDOR_FILES = ("sys_vendor", "board_vendor", "bios_vendor")


DRAIN_BEFORE_SECONDS = 900.0
"""How long before a scheduled event the runner stops taking jobs. Events are announced up to two weeks ahead."""
_SCHEDULED = {
    "instance-retirement": "scheduled retirement",
    "instance-stop": "scheduled stop",
    "instance-reboot": "scheduled reboot",
    "system-reboot": "scheduled reboot",
}
_LEAVING_STATES = ("Terminated", "Stopped", "Hibernated")


class MetadataAnswers(msgspec.Struct, frozen=True):
    """The text of each page of the metadata; None if there is no such page, which is the normal case."""

    spot: str | None = None
    rebalance: str | None = None
    scheduled: str | None = None
    lifecycle: str | None = None


class AnnouncedEnd(msgspec.Struct, frozen=True):
    reason: str
    ends_at: float | None = None
    """Seconds since 1970."""
    is_final: bool = False
    """Whether it is never moved to a later time."""


class _SpotAction(msgspec.Struct, frozen=True):
    action: str
    time: datetime


class _ScheduledEvent(msgspec.Struct, frozen=True):
    not_before: str = msgspec.field(name="NotBefore")
    code: str = msgspec.field(default="", name="Code")
    state: str = msgspec.field(default="active", name="State")


def announced(answers: MetadataAnswers, now: float) -> AnnouncedEnd | None:
    """Return the end that comes first, or None if none is announced. Raises ValueError if an answer cannot be read."""
    found = [*_spot(answers.spot), *_scheduled(answers.scheduled, now)]
    if found:
        return min(found, key=lambda each: each.ends_at or 0.0)
    if answers.lifecycle is not None and answers.lifecycle.strip().endswith(_LEAVING_STATES):
        return AnnouncedEnd("termination by its Auto Scaling group")
    return AnnouncedEnd("rebalance recommendation") if answers.rebalance is not None else None


def _spot(text: str | None) -> list[AnnouncedEnd]:
    if text is None:
        return []
    action = msgspec.json.decode(text, type=_SpotAction)
    return [AnnouncedEnd("spot notice", _utc(action.time).timestamp(), is_final=True)]


def _scheduled(text: str | None, now: float) -> list[AnnouncedEnd]:
    if text is None:
        return []
    events = msgspec.json.decode(text, type=list[_ScheduledEvent])
    found = [
        AnnouncedEnd(
            _SCHEDULED.get(each.code, "scheduled maintenance"),
            _utc(parsedate_to_datetime(each.not_before)).timestamp(),
        )
        for each in events
        if each.state == "active"
    ]
    return [each for each in found if each.ends_at is not None and each.ends_at - now <= DRAIN_BEFORE_SECONDS]


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def endpoint(environment: Mapping[str, str], *, is_wanted: bool, system: Path = Path("/sys")) -> str | None:
    """Return the address of the metadata, or None if this machine is not an instance of EC2. `is_wanted`: the settings say that it is."""
    if environment.get(_DISABLED_VARIABLE, "").lower() == "true":
        return None
    if environment.get("AWS_EXECUTION_ENV") == "AWS_ECS_FARGATE":  # SIGTERM is its notice
        return None
    if given := environment.get(ENDPOINT_VARIABLE):
        return given
    return ENDPOINT if is_wanted or _is_instance(system) else None


def _is_instance(system: Path) -> bool:
    for name in _VENDOR_FILES:
        with contextlib.suppress(OSError):
            if "Amazon EC2" in (system / "class/dmi/id" / name).read_text(errors="replace"):
                return True
    with contextlib.suppress(OSError):
        return (system / "hypervisor/uuid").read_text(errors="replace").lower().startswith("ec2")
    return False


class Ec2Metadata:
    """A connection to the metadata, which goes through no proxy. Its methods wait, so they are called in a thread."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(place.hostname or "", place.port, timeout=_TIMEOUT_SECONDS)
        self._token = ""

    def read(self) -> MetadataAnswers:
        """Return what the metadata says now. Raises Unavailable if it does not answer."""
        try:
            return MetadataAnswers(**{name: self._get(page) for name, page in _PAGES.items()})
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self._token = ""
            raise Unavailable(f"the instance metadata does not answer: {error or type(error).__name__}") from error

    def close(self) -> None:
        self._connection.close()

    def _get(self, page: str) -> str | None:
        status = http.client.UNAUTHORIZED
        for _ in range(2):
            if not self._token:
                wanted = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)}
                status, text = self._ask("PUT", "/latest/api/token", wanted)
                if status != http.client.OK:
                    raise http.client.HTTPException(f"status {status} to the request for a token")
                self._token = text
            status, text = self._ask("GET", f"/latest/meta-data/{page}", {"X-aws-ec2-metadata-token": self._token})
            if status == http.client.NOT_FOUND:
                return None
            if status == http.client.OK:
                return text
            if status != http.client.UNAUTHORIZED:
                break
            self._token = ""  # it has expired
        raise http.client.HTTPException(f"status {status} for {page}")

    def _ask(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        self._connection.request(method, path, headers=dict(headers))
        answer = self._connection.getresponse()
        body = answer.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            raise http.client.HTTPException(f"an answer of more than {_MAX_BYTES} bytes")
        return answer.status, body.decode(errors="replace")


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
            end = announced(answers, now := time.time())
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
    address = endpoint(environment, is_wanted=source == "ec2")
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
