"""Charts are drawn within their frame, keep proportions, and say in words what they show."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.api.overview import FigureSums, Overview, QueueNow
from terracrew.server.dashboard import charts, overview_charts
from terracrew.server.dashboard.charts import MAX_X_COLUMNS, MAX_Y_ROWS, BarValues

pytestmark = pytest.mark.feature("P2.charts")
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)


def part(hours: int, **sums: float) -> FigureSums:
    start = NOON + timedelta(hours=hours)
    return FigureSums(starts_at=start, ends_at=start + timedelta(hours=1), **sums)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1)), max_size=40))
def test_bars_stay_within_the_frame_beside_each_other(values: list[tuple[int, float]]) -> None:
    found = charts.boxes([BarValues(total, total * share) for total, share in values])
    for each in found:
        assert each.width > 0
        assert each.height > 0
        assert 0 <= each.x <= each.x + each.width <= MAX_X_COLUMNS + 1e-6
        assert -1e-6 <= each.y <= each.y + each.height <= MAX_Y_ROWS + 1e-6
    assert len({round(each.x, 6) for each in found}) == sum(total > 0 for total, _ in values)


def test_bars_keep_the_proportions_and_the_bad_part_is_on_top() -> None:
    low, high, bad = charts.boxes([BarValues(5), BarValues(0), BarValues(10, 5)])
    assert (low.height, high.height, bad.height) == (MAX_Y_ROWS / 2,) * 3
    assert (bad.y, high.y) == (0, MAX_Y_ROWS / 2)
    assert (bad.x, bad.name, high.name) == (high.x, "bad", "good")
    assert [each.name for each in charts.boxes([BarValues(3, 3)])] == ["bad"]
    assert charts.boxes([BarValues(0)]) == charts.boxes([]) == []
    [_, tiny] = charts.boxes([BarValues(10_000, 1)])
    assert tiny.height >= 1, "one failure among thousands can be seen"


def test_a_line_has_gaps_where_nothing_is_known() -> None:
    assert charts.path([1.0, None, 1.0, 0.0], 1.0) == "M30 1h15M150 1L210 55"
    assert charts.path([None], 1.0) == ""
    assert charts.path([5.0], 1.0).startswith("M120 1"), "a value above the top stays in the frame"
    assert "<path" not in charts.lines("nothing", [None, None])
    assert "<path" not in charts.lines("nothing", [])


def test_a_chart_is_an_image_with_a_title_and_without_styles() -> None:
    for each in (
        charts.bars('a < b & "c"', [BarValues(1)]),
        charts.lines('a < b & "c"', [1.0], [2.0]),
        charts.share('a < b & "c"', 1, 2),
    ):
        assert "<title>a &lt; b &amp; &#34;c&#34;</title>" in each
        assert 'role="img"' in each
        assert 'aria-label="a &lt; b &amp; &#34;c&#34;"' in each
        assert "style" not in each, "the content security policy refuses it"


def test_a_share_is_between_nothing_and_everything() -> None:
    widths = [re.findall(r'width="([\d.]+)"', charts.share("x", part_, 4))[1:] for part_ in (0, 1, 4, 9)]
    assert widths == [[], ["60"], ["240"], ["240"]]
    assert charts.share("x", 1, 0).count("<rect") == 1


def test_the_words_of_the_charts_tell_what_the_eye_sees() -> None:
    parts = [
        part(0, succeeded=3, wait_p50_seconds=1.0, wait_p95_seconds=2.0, busy_seconds=50.0, capacity_seconds=100.0),
        part(1, succeeded=9, failed=2, wait_p50_seconds=1.0, wait_p95_seconds=9.0),
        *[part(hour) for hour in range(2, 24)],
    ]
    total = part(0, succeeded=12, failed=2, failed_engine=2, wait_p50_seconds=1.0, wait_p95_seconds=9.0)
    found = overview_charts.draw(
        Overview(
            place="", span="day", is_partial=False, queue=QueueNow(), total=total, parts=parts, needs=[], more_needs=[]
        )
    )
    assert "14, of which 2 failed; the most at 13:00" in found.jobs
    assert "half up to 1.0 s, 95 % up to 9.0 s; the most at 13:00" in found.waits
    assert "the most at 12:00" in found.runners
    assert found.labels == ["12:00 UTC", "18:00", "00:00", "06:00", "now"]
    assert [(each.word, each.count) for each in found.classes if each.count] == [("Engine", 2)]
    assert "Engine: 2 of 2" in found.classes[1].bar
