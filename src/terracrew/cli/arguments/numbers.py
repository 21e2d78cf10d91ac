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
    if low is None:
        return f"at most {high:g}"
    if high is None:
        return f"more than {low:g}" if is_open else f"at least {low:g}"
    return f"more than {low:g}, at most {high:g}" if is_open else f"{low:g} to {high:g}"
