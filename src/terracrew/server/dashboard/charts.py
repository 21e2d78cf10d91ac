"""Draws small charts as SVG. The functions are pure; colours come from the stylesheet, and every chart says in words what it shows."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

MAX_X_COLUMNS = 240
"""The width of a chart in its own units. The page stretches it to the width that there is."""
MAX_Y_ROWS = 56
"""The height of a chart in its own units."""
_GAP_RATIO = 0.25
"""How much of the room for a bar stays free."""
_MIN_BAR_ROWS = 1.5
"""The least height of a bar that stands for something."""


class BarValues(NamedTuple):
    """A bar: how much it stands for, and how much of that is drawn at its top in the colour of what is bad."""

    total: float
    bad: float = 0.0


class Box(NamedTuple):
    """A rectangle in the units of a chart."""

    x: float
    y: float
    width: float
    height: float
    name: str
    """The class that gives it its colour."""


def bars(title: str, values: Sequence[BarValues]) -> Markup:
    """Draw a bar for each value, the largest one as high as the chart."""
    rects = "".join(
        f'<rect class="{each.name}" x="{_short(each.x)}" y="{_short(each.y)}" width="{_short(each.width)}" '
        f'height="{_short(each.height)}"/>'
        for each in boxes(values)
    )
    return _chart(title, rects)


def boxes(values: Sequence[BarValues]) -> list[Box]:
    """Return the rectangles of bars, from left to right, the bad part of each on top of the good one."""
    most = max((each.total for each in values), default=0.0)
    found: list[Box] = []
    if most <= 0:
        return found
    room = MAX_X_COLUMNS / len(values)
    width = room * (1 - _GAP_RATIO)
    for index, each in enumerate(values):
        if each.total <= 0:
            continue
        x = index * room + (room - width) / 2
        height = max(_MIN_BAR_ROWS, MAX_Y_ROWS * each.total / most)
        bad = 0.0 if each.bad <= 0 else min(height, max(_MIN_BAR_ROWS, height * each.bad / each.total))
        if bad < height:
            found.append(Box(x, MAX_Y_ROWS - height + bad, width, height - bad, "good"))
        if bad:
            found.append(Box(x, MAX_Y_ROWS - height, width, bad, "bad"))
    return found


def lines(title: str, solid: Sequence[float | None], dashed: Sequence[float | None] = (), most: float = 0.0) -> Markup:
    """Draw one or two lines over the same parts of the time. Where a value is missing, a line has a gap, and a value between two gaps
    is a dot. `most` is the value at the top; without it, that is the largest one."""
    top = most or max((each for each in (*solid, *dashed) if each is not None), default=0.0)
    drawn = "".join(
        f'<path class="{name}" d="{path(values, top)}" vector-effect="non-scaling-stroke"/>'
        for name, values in (("dashed", dashed), ("solid", solid))
        if top > 0 and any(each is not None for each in values)
    )
    return _chart(title, drawn)


def path(values: Sequence[float | None], top: float) -> str:
    """Return the path of a line through the middles of its parts."""
    room = MAX_X_COLUMNS / max(1, len(values))
    words: list[str] = []
    is_drawing = False
    for index, each in enumerate(values):
        if each is None:
            is_drawing = False
            continue
        x, y = (index + 0.5) * room, MAX_Y_ROWS - 1 - (MAX_Y_ROWS - 2) * min(1.0, each / top)
        words.append(f"{'L' if is_drawing else 'M'}{_short(x)} {_short(y)}")
        is_alone = not is_drawing and (index + 1 == len(values) or values[index + 1] is None)
        if is_alone:
            words.append(f"h{_short(room / 4)}")
        is_drawing = True
    return "".join(words)


def share(title: str, part: float, whole: float, name: str = "good") -> Markup:
    """Draw one bar from the left, which is as long as a part of the whole."""
    width = 0.0 if whole <= 0 else MAX_X_COLUMNS * min(1.0, max(0.0, part / whole))
    drawn = f'<rect class="rest" width="{MAX_X_COLUMNS}" height="6" rx="3"/>'
    if width:
        drawn += f'<rect class="{escape(name)}" width="{_short(width)}" height="6" rx="3"/>'
    return _chart(title, drawn, rows=6, name="share")


def _chart(title: str, drawn: str, rows: int = MAX_Y_ROWS, name: str = "") -> Markup:
    words = escape(title)
    classes = f"chart {name}".rstrip()
    return Markup(  # noqa: S704 - the only text is the title, which is escaped
        f'<svg class="{classes}" viewBox="0 0 {MAX_X_COLUMNS} {rows}" preserveAspectRatio="none" role="img" '
        f'aria-label="{words}"><title>{words}</title>{drawn}</svg>'
    )


def _short(number: float) -> str:
    """Return a number with as many places as can be seen."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
