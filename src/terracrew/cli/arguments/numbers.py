"""Numbers as values of options, with their bounds in words."""

import click


class Whole(click.IntRange):
    """A whole number within bounds. The help shows it as N."""

    name = "n"

    def _describe_range(self) -> str:
        return _bounds(self.min, self.max)


class Number(click.FloatRange):
    """A number within bounds. The help shows it as N."""

    name = "n"

    def _describe_range(self) -> str:
        return _bounds(self.min, self.max, is_open=self.min_open)


def _bounds(low: float | None, high: float | None, *, is_open: bool = False) -> str:
    """Return the bounds in words. With 15 digits, a million is not written as 1e+06."""
    if low is None:
        return f"at most {high:.15g}"
    if high is None:
        return f"more than {low:.15g}" if is_open else f"at least {low:.15g}"
    return f"more than {low:.15g}, at most {high:.15g}" if is_open else f"{low:.15g} to {high:.15g}"
