"""Counters and histograms as plain numbers: they are touched for every commit and every delivery, so they cost almost nothing.

`exposition` turns them into the text that Prometheus reads. They are used on the event loop's thread only and need no lock.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

Labels = tuple[str, ...]


class Counter:
    """A number that only grows, one for each combination of label values."""

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        self.name, self.help_text, self.labels = name, help_text, labels
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, amount: float = 1.0, /, *values: str) -> None:
        self.values[values] = self.values.get(values, 0.0) + amount


class Histogram:
    """How many observations were not larger than each bound, and their sum."""

    def __init__(self, name: str, help_text: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        self.name, self.help_text, self.labels = name, help_text, labels
        self.bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        if not labels:
            self._row(())

    def observe(self, value: float, *values: str) -> None:
        """Count one observation. A negative one (two clocks that disagree) counts as zero."""
        value = max(value, 0.0)
        self._row(values)[bisect_left(self.bounds, value)] += 1
        self._sums[values] += value

    def rows(self) -> Iterator[tuple[Labels, list[tuple[str, float]], float]]:
        """Yield the label values, the cumulative buckets by their bounds, and the sum."""
        for values, counts in self._counts.items():
            total = 0
            buckets: list[tuple[str, float]] = []
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                total += count
                buckets.append(("+Inf" if bound == float("inf") else repr(float(bound)), total))
            yield values, buckets, self._sums[values]

    def count(self, *values: str) -> int:
        return sum(self._counts.get(values, ()))

    def _row(self, values: Labels) -> list[int]:
        row = self._counts.get(values)
        if row is None:
            row = self._counts[values] = [0] * (len(self.bounds) + 1)
            self._sums[values] = 0.0
        return row
