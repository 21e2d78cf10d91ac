"""Reads the instance metadata of EC2 (IMDSv2), on machines that are known to be instances of EC2.

Other machines send no request: the address is link-local, and something else may answer there.
"""

import contextlib
import http.client
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from terracrew.errors import Unavailable

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
