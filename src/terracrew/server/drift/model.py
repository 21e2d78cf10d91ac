"""What differs between two checks of a module, what of it is told, and how many checks may run: pure functions."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from terracrew.api.drift import DriftChange, DriftItem
from terracrew.plan_diff.model import AttributeDiff, ResourceDiff

IGNORED_ACTIONS = frozenset({"read"})
"""To read a data source changes nothing."""
MAX_DIFFERENCES = 1_000
"""How many differences the result of a check keeps. All of them are in the list of addresses."""


class DriftModule(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the drift of a module: the check that is due or runs, and what the last one has found."""

    module_id: str
    organization_id: str
    due_at: datetime | None = None
    give_up_at: datetime | None = None
    """A check that could not begin until then is given up."""
    asked_by: str = ""
    asked_by_name: str = ""
    schedule_id: str | None = None
    schedule_name: str = ""
    is_refresh_only: bool = True
    after_job_id: str | None = None
    """The check begins after this job has ended."""
    job_id: str | None = None
    """The job of the check that runs."""
    checked_at: datetime | None = None
    checked_job_id: str | None = None
    drifted: int = 0
    drifted_since: datetime | None = None
    problem: str = ""
    problem_at: datetime | None = None

    def without_check(self) -> "DriftModule":
        return msgspec.structs.replace(
            self, due_at=None, give_up_at=None, after_job_id=None, job_id=None, schedule_id=None, schedule_name=""
        )


class Found(msgspec.Struct, frozen=True):
    """How an address differs in a check."""

    action: str
    digest: str


class Findings(msgspec.Struct, frozen=True):
    """What a check has found."""

    addresses: dict[str, Found]
    is_complete: bool = True
    """Whether everything that differs is named. Otherwise nothing counts as gone."""


class Comparison(msgspec.Struct, frozen=True):
    """What follows from a check and the one before."""

    items: list[DriftItem]
    """All addresses that differ now."""
    differences: list[DriftChange]
    """What is new, changed or gone, without what is muted."""


def findings(resources: Iterable[ResourceDiff], *, is_complete: bool = True) -> Findings:
    """Return what differs by address. An address that was changed outside and is planned to be changed is in the diff twice."""
    actions: dict[str, str] = {}
    shown: dict[str, list[object]] = {}
    for each in resources:
        if each.action in IGNORED_ACTIONS:
            continue
        address = f"{each.address} (deposed {each.deposed})" if each.deposed else each.address
        actions.setdefault(address, each.action)
        values = [_values(attribute) for attribute in each.attributes]
        shown.setdefault(address, []).append([each.action, each.previous_address, values])
    found = {
        address: Found(action, hashlib.sha256(msgspec.json.encode(shown[address])).hexdigest())
        for address, action in actions.items()
    }
    return Findings(found, is_complete)


def _values(attribute: AttributeDiff) -> list[object]:
    """Return what the hash is of. Sensitive values are in no diff, so another one of them makes no other hash."""
    inside = [_values(each) for each in attribute.inside]
    return [attribute.name, attribute.action, attribute.before, attribute.after, attribute.is_sensitive, inside]


def compare(
    module_id: str, before: Mapping[str, DriftItem], found: Findings, muted: Collection[str], now: datetime
) -> Comparison:
    """Compare a check with the one before. What is muted is remembered and not told."""
    items: list[DriftItem] = []
    differences: list[DriftChange] = []
    for address, each in sorted(found.addresses.items()):
        known = before.get(address)
        is_same = known is not None and (known.action, known.digest) == (each.action, each.digest)
        since = now if known is None else known.since
        changed_at = known.changed_at if known is not None and is_same else now
        items.append(DriftItem(module_id, address, each.action, each.digest, since, changed_at))
        if address not in muted and not is_same:
            differences.append(DriftChange(address, "new" if known is None else "changed", each.action))
    for address, known in sorted(before.items()):
        if address in found.addresses:
            continue
        if not found.is_complete:
            items.append(known)
        elif address not in muted:
            differences.append(DriftChange(address, "gone", known.action))
    return Comparison(items, differences)


def share(slots: int, percent: int) -> int:
    """Return how many checks of an organization may be queued or running at once."""
    return max(1, slots * percent // 100)


def delay_seconds(module_id: str, window_seconds: float) -> float:
    """Return when within a window a module is checked: always at the same place, so that checks are spread evenly."""
    digest = hashlib.sha256(module_id.encode()).digest()
    return window_seconds * int.from_bytes(digest[:8], "big") / (1 << 64)
