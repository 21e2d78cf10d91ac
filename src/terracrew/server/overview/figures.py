"""The figures of an overview: which groups count for a reader, the parts of a span, and their sums."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from terracrew.api.overview import FigureSums, OverviewSpan
from terracrew.server.db.seam import Tx
from terracrew.server.figures import model
from terracrew.server.figures import reads as figure_reads
from terracrew.server.figures.model import BUSY, CAPACITY, DAY_SECONDS, HOUR_SECONDS, Key
from terracrew.server.overview import reads
from terracrew.server.overview.loop import MAX_SAMPLE_SECONDS
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Visible


class SpanParts(NamedTuple):
    """How a span is divided."""

    period_seconds: int
    """The length of the periods whose sums are read."""
    part_seconds: int
    part_count: int


SPANS: Mapping[OverviewSpan, SpanParts] = {
    "day": SpanParts(HOUR_SECONDS, HOUR_SECONDS, 24),
    "week": SpanParts(HOUR_SECONDS, 6 * HOUR_SECONDS, 28),
    "month": SpanParts(DAY_SECONDS, DAY_SECONDS, 30),
}


def _is_any(_: str) -> bool:
    return True


def _is_of_runners(kind: str) -> bool:
    return kind in (BUSY, CAPACITY)


def _is_of_jobs(kind: str) -> bool:
    return not _is_of_runners(kind)


def visible_paths(seen: Visible, organization_id: str, places: Sequence[str]) -> list[str]:
    """Return the topmost groups at these places and below them that the reader sees as a whole. None of them is in another one."""
    found: set[str] = set()
    bound = [path for kind, path in seen.bindings if kind == "group"]
    for place in places:
        if seen.covers(authorize.group(organization_id, place)):
            found.add(place)
        else:
            found.update(path for path in bound if is_within(path, place))
    return sorted(path for path in found if not any(is_within(path, other) for other in found - {path}))


def visible_modules(seen: Visible, places: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Return the modules in these places that the reader sees by a role at the module alone, outside of the groups that they see."""
    found = {path for kind, path in seen.bindings if kind == "module" and any(is_within(path, each) for each in places)}
    return sorted(path for path in found if not any(is_within(path, each) for each in groups))


def is_within(path: str, place: str) -> bool:
    """Return whether a path is a place, or below it; the empty place has everything."""
    return place == "" or path == place or path.startswith(f"{place}/")


def is_partial(seen: Visible, organization_id: str, places: Sequence[str]) -> bool:
    return not all(seen.covers(authorize.group(organization_id, place)) for place in places)


async def sums(
    tx: Tx,
    organization_id: str,
    jobs_in: Sequence[str],
    runners_in: Sequence[str],
    span: OverviewSpan,
    *,
    is_shared: bool,
) -> tuple[FigureSums, list[FigureSums]]:
    """Return the sums of a span and of each of its parts. `jobs_in` and `runners_in` are the topmost visible groups of both, and
    `is_shared` says whether the reader sees the shared runners, which count for the organization as a whole."""
    found = await reads.group_ids(tx, organization_id, {*jobs_in, *runners_in})
    shape = SPANS[span]
    first = first_part(tx.now, shape)
    of_jobs = [found[path] for path in jobs_in if path in found]
    of_runners = [found[path] for path in runners_in if path in found]
    counts_shared = is_shared and "" in runners_in
    groups = [*of_runners, *([model.SHARED] if counts_shared else [])]
    by_part: dict[int, dict[str, float]] = {}
    if set(of_jobs) <= set(groups) and len(of_jobs) == len(of_runners):  # the shared runners have no jobs of their own
        asked = [(groups, _is_any)]
    else:
        asked = [(of_jobs, _is_of_jobs), (groups, _is_of_runners)]
    for ids, kinds in asked:
        if ids:
            sums_ = await figure_reads.sums(tx, organization_id, ids, shape.period_seconds, first, shape.part_seconds)
            _take(by_part, sums_, kinds)
    _extend_capacity(by_part, model.start_of(tx.now, shape.part_seconds), await figure_reads.sampled_at(tx), tx.now)
    if of_runners:
        await _add_running(tx, by_part, organization_id, of_runners, found.get(""), shape.part_seconds, first)
    parts = [
        _sums(start, start + shape.part_seconds, by_part.get(start, {}).items())
        for start in range(first, first + shape.part_count * shape.part_seconds, shape.part_seconds)
    ]
    end = first + shape.part_count * shape.part_seconds
    # A clock that was set back leaves sums of a time that has not come. They are in no part, so they are not in the total.
    known = (item for start, amounts in by_part.items() if start < end for item in amounts.items())
    return _sums(first, end, known), parts


def first_part(now: float, shape: SpanParts) -> int:
    """Return when the first part of a span begins. The last one contains this moment."""
    return model.start_of(now, shape.part_seconds) - (shape.part_count - 1) * shape.part_seconds


def _take(
    into: dict[int, dict[str, float]], found: Mapping[int, Mapping[str, float]], is_taken: Callable[[str], bool]
) -> None:
    """Take the kinds that are about jobs or about runners: a reader may see other groups of one than of the other."""
    for start, amounts in found.items():
        into.setdefault(start, {}).update({kind: amount for kind, amount in amounts.items() if is_taken(kind)})


async def _add_running(
    tx: Tx,
    into: dict[int, dict[str, float]],
    organization_id: str,
    groups: Sequence[str],
    root_id: str | None,
    part_seconds: int,
    first: int,
) -> None:
    """Add the slots that are occupied now, which no entry has yet."""
    slots = await reads.occupied_slots(tx, organization_id)
    ancestors = await figure_reads.ancestors(tx, {each.group_id for each in slots if each.group_id})
    added: dict[Key, float] = {}
    for each in slots:
        above = ancestors.get(each.group_id, []) if each.group_id else [root_id] if root_id else []
        counted = [group for group in above if group in groups]
        model.add_busy(added, counted, max(each.since, first), tx.now, each.slots, [model.HOUR_SECONDS])
    for (_, _, start, kind), amount in added.items():
        amounts = into.setdefault(first + (start - first) // part_seconds * part_seconds, {})
        amounts[kind] = amounts.get(kind, 0.0) + amount


def _extend_capacity(
    into: Mapping[int, dict[str, float]], part_start: int, sampled_at: float | None, now: float
) -> None:
    """Count the slots of the last part until now, as many as there were when they were last looked at.

    Occupied slots count until now, and in the first minutes of a part they would be more than there seem to be.
    """
    amounts = into.get(part_start, {})
    if CAPACITY in amounts and sampled_at is not None and part_start < sampled_at < now:
        until = min(now, sampled_at + MAX_SAMPLE_SECONDS)
        amounts[CAPACITY] *= (until - part_start) / (sampled_at - part_start)


def _sums(start: int, end: int, amounts: Iterable[tuple[str, float]]) -> FigureSums:
    found = model.merged(amounts)
    return FigureSums(
        starts_at=datetime.fromtimestamp(start, UTC),
        ends_at=datetime.fromtimestamp(end, UTC),
        succeeded=found.ended.get("SUCCEEDED", 0),
        failed=found.ended.get("FAILED", 0),
        canceled=found.ended.get("CANCELED", 0),
        declined=found.ended.get("DECLINED", 0),
        failed_infrastructure=found.failed.get("infrastructure", 0),
        failed_engine=found.failed.get("engine", 0),
        failed_policy=found.failed.get("policy", 0),
        failed_user=found.failed.get("user", 0),
        starts=round(sum(found.waits.values())),
        wait_p50_seconds=model.percentile(found.waits, 0.5),
        wait_p95_seconds=model.percentile(found.waits, 0.95),
        busy_seconds=round(found.busy_seconds, 3),
        capacity_seconds=round(found.capacity_seconds, 3),
    )
