"""What is counted, and how: entries of single jobs, sums by group and period, and the histogram of waits. Pure functions.

`tally` is the only way from entries to sums. The fold uses it, and so does every reader, for the entries that are not folded yet.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
PERIODS_SECONDS = (HOUR_SECONDS, DAY_SECONDS)
"""The lengths of the periods that sums are kept for. Both begin at full hours or days of UTC."""
MIN_WAIT_SECONDS = 0.01
DOUBLING_BUCKET_COUNT = 4
"""The bounds of two neighbouring buckets differ by the factor 2 ** (1 / 4), so a percentile is wrong by 19 % at most."""
MAX_BUCKET = 120
"""The last bucket ends after more than 100 days."""
MAX_BUSY_SECONDS = 40 * DAY_SECONDS
"""How much of a slot's occupation before its end is counted: what lies further back is not kept."""
SHARED = ""
"""In place of the id of a group: the capacity of runners that serve every organization."""

Key: TypeAlias = tuple[str, int, int, str]
"""A group, the length of a period in seconds, the start of the period in seconds since 1970, and what is counted."""
BUSY = "busy"
"""The kind of the seconds for which slots were occupied."""
CAPACITY = "capacity"
"""The kind of the seconds for which slots were there, occupied or not."""


class FigureEntry(msgspec.Struct, frozen=True):
    """What a job contributes when an attempt of it releases its slot, or when it ends."""

    job_id: str
    attempt: int
    status: str
    """The status that the job has from then on."""
    group_id: str
    at: datetime
    failure_class: str = ""
    """Set if the job has ended without success."""
    runner_group_id: str = ""
    """The group of the runner whose slot was released; that of the whole organization for a shared runner; empty if there was none."""
    busy_since: datetime | None = None
    wait_seconds: float | None = None
    """How long the attempt waited from when it was queued to when its executor started; null if that did not start."""
    is_end: bool = False


def bucket_of(seconds: float) -> int:
    """Return the bucket of a wait: bucket `n` ends at MIN_WAIT_SECONDS * 2 ** (n / DOUBLING_BUCKET_COUNT), which belongs to it."""
    if seconds <= MIN_WAIT_SECONDS:
        return 0
    return min(math.ceil(round(DOUBLING_BUCKET_COUNT * math.log2(seconds / MIN_WAIT_SECONDS), 9)), MAX_BUCKET)


def bound_of(bucket: int) -> float:
    """Return the longest wait of a bucket, in seconds."""
    return MIN_WAIT_SECONDS * 2.0 ** (bucket / DOUBLING_BUCKET_COUNT)


def percentile(histogram: Mapping[int, float], share: float) -> float | None:
    """Return the wait that this share of all waits does not exceed, in seconds; None without waits.

    Within a bucket, waits count as spread evenly on the logarithmic scale.
    """
    total = sum(histogram.values())
    if total <= 0:
        return None
    left = share * total
    for bucket in sorted(histogram):
        count = histogram[bucket]
        if count > 0 and left <= count:
            if bucket == 0:
                return MIN_WAIT_SECONDS
            return bound_of(bucket - 1) * 2.0 ** (left / count / DOUBLING_BUCKET_COUNT)
        left -= count
    return bound_of(max(histogram))


def start_of(at: float, period_seconds: int) -> int:
    """Return the start of the period that contains this time."""
    return int(at // period_seconds) * period_seconds


def pieces(since: float, until: float, period_seconds: int) -> Iterator[tuple[int, float]]:
    """Divide a time among the periods that it touches: the start of each, and its seconds."""
    while since < until:
        start = start_of(since, period_seconds)
        end = min(until, start + period_seconds)
        yield start, end - since
        since = end


def kinds_of(entry: FigureEntry) -> Iterator[str]:
    """Return what an entry counts as, apart from the time of its slot."""
    if entry.is_end:
        yield f"ended:{entry.status}"
        if entry.status == "FAILED":
            yield f"failed:{entry.failure_class}"
    if entry.wait_seconds is not None:
        yield f"wait:{bucket_of(entry.wait_seconds)}"


def tally(
    entries: Iterable[FigureEntry],
    ancestors: Mapping[str, Sequence[str]],
    periods_seconds: Sequence[int] = PERIODS_SECONDS,
) -> dict[Key, float]:
    """Return what entries add to the sums of groups. `ancestors` has each group with those above it, and lacks deleted groups."""
    sums: defaultdict[Key, float] = defaultdict(float)
    for entry in entries:
        at = entry.at.timestamp()
        for group_id in ancestors.get(entry.group_id, ()):
            for kind in kinds_of(entry):
                for period in periods_seconds:
                    sums[group_id, period, start_of(at, period), kind] += 1
        if entry.busy_since is not None:
            add_busy(
                sums, ancestors.get(entry.runner_group_id, ()), entry.busy_since.timestamp(), at, 1, periods_seconds
            )
    return dict(sums)


def add_busy(
    sums: dict[Key, float],
    groups: Sequence[str],
    since: float,
    until: float,
    slots: int,
    periods_seconds: Sequence[int] = PERIODS_SECONDS,
) -> None:
    """Add the time for which slots were occupied to the sums of a runner's group and of those above."""
    for period in periods_seconds:
        for start, seconds in pieces(max(since, until - MAX_BUSY_SECONDS), until, period):
            for group_id in groups:
                key = group_id, period, start, BUSY
                sums[key] = sums.get(key, 0.0) + seconds * slots


class PeriodSums(NamedTuple):
    """What is known of one part of the time."""

    ended: dict[str, int]
    """Jobs that ended, by status."""
    failed: dict[str, int]
    """Those of them that failed, by class."""
    waits: dict[int, float]
    """Attempts that started, by the bucket of their wait."""
    busy_seconds: float
    capacity_seconds: float


def merged(amounts: Iterable[tuple[str, float]]) -> PeriodSums:
    """Merge the sums of several groups or periods: kinds with their amounts."""
    ended: defaultdict[str, int] = defaultdict(int)
    failed: defaultdict[str, int] = defaultdict(int)
    waits: defaultdict[int, float] = defaultdict(float)
    seconds: defaultdict[str, float] = defaultdict(float)
    for kind, amount in amounts:
        name, _, what = kind.partition(":")
        if name == "ended":
            ended[what] += round(amount)
        elif name == "failed":
            failed[what] += round(amount)
        elif name == "wait":
            waits[int(what)] += amount
        else:
            seconds[name] += amount
    return PeriodSums(dict(ended), dict(failed), dict(waits), seconds[BUSY], seconds[CAPACITY])
