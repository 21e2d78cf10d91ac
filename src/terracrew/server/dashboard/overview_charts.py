"""What the overview draws: its figures as charts and in words."""

from collections.abc import Callable
from datetime import datetime

import msgspec
from markupsafe import Markup

from terracrew.api.failures import FAILURE_CLASSES
from terracrew.api.overview import FigureSums, Overview, OverviewSpan
from terracrew.server.dashboard import charts
from terracrew.server.dashboard.charts import BarValues
from terracrew.wording import module_words, overview_words

MAX_LABELS = 4
"""How many times are written below a chart, before `now`."""


class ClassCount(msgspec.Struct, frozen=True):
    """The failures of one class."""

    word: str
    advice: str
    count: int
    bar: Markup


class DrawnFigures(msgspec.Struct, frozen=True):
    """The figures of an overview, as the page shows them."""

    jobs: Markup
    waits: Markup
    runners: Markup
    classes: list[ClassCount]
    labels: list[str]
    """Times below each chart, at equal distances."""
    wait_p50: str
    wait_p95: str
    utilisation: str
    has_capacity: bool


def draw(found: Overview) -> DrawnFigures:
    total, parts = found.total, found.parts
    span = overview_words.SPANS[found.span]
    p50, p95 = overview_words.wait(total.wait_p50_seconds), overview_words.wait(total.wait_p95_seconds)
    used = overview_words.percent(total.utilisation)
    jobs = f"Jobs that ended in {span}: {total.finished:,}, of which {total.failed:,} failed{_most(found, _finished)}"
    waits = f"Wait before the start in {span}: half up to {p50}, 95 % up to {p95}{_most(found, _wait)}"
    runners = f"Slots of runners in use in {span}: {used}{_most(found, _use)}"
    return DrawnFigures(
        jobs=charts.bars(jobs, [BarValues(each.finished, each.failed) for each in parts]),
        waits=charts.lines(waits, [each.wait_p50_seconds for each in parts], [each.wait_p95_seconds for each in parts]),
        runners=charts.lines(runners, [each.utilisation for each in parts], most=1.0),
        classes=_classes(total),
        labels=labels([each.starts_at for each in parts], found.span),
        wait_p50=p50,
        wait_p95=p95,
        utilisation=used,
        has_capacity=total.capacity_seconds > 0,
    )


def labels(starts: list[datetime], span: OverviewSpan) -> list[str]:
    """Return the times at equal distances below a chart, the last of which is now. Times of a day say in which zone they are."""
    distance = max(1, len(starts) // MAX_LABELS)
    first, *others = (overview_words.moment(each, span) for each in starts[: distance * MAX_LABELS : distance])
    return [first if span == "month" else f"{first} UTC", *others, "now"]


def _classes(total: FigureSums) -> list[ClassCount]:
    counts = {name: getattr(total, f"failed_{name}") for name in FAILURE_CLASSES}
    most = max(counts.values())
    return [
        ClassCount(
            module_words.FAILURE_CLASSES[name],
            module_words.FAILURE_ADVICE[name],
            count,
            charts.share(f"{module_words.FAILURE_CLASSES[name]}: {count:,} of {total.failed:,}", count, most, "bad"),
        )
        for name, count in counts.items()
    ]


def _finished(part: FigureSums) -> float | None:
    return part.finished or None


def _wait(part: FigureSums) -> float | None:
    return part.wait_p95_seconds


def _use(part: FigureSums) -> float | None:
    return part.utilisation


def _most(found: Overview, value: Callable[[FigureSums], float | None]) -> str:
    """Say when it was most, so that the words tell what the eye sees."""
    known = [(number, each.starts_at) for each in found.parts if (number := value(each)) is not None]
    if not known:
        return ""
    _, when = max(known)
    return f"; the most at {overview_words.moment(when, found.span)}"
