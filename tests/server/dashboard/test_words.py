"""The words and shapes of the dashboard."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from terracrew.api import fields
from terracrew.api.job_views import Reason
from terracrew.api.jobs import JobStatus
from terracrew.api.runners import RunnerStatus
from terracrew.protocol.spec import Definition, JobType, Step
from terracrew.server.dashboard import badges, render, words
from terracrew.server.dashboard.tree import words as place_words
from terracrew.wording.durations import duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (9.99, "9 s"),
        (59, "59 s"),
        (68, "1 m 08 s"),
        (3600, "1 h 00 m"),
        (20460, "5 h 41 m"),
        (273600, "3 d 4 h"),
    ],
)
def test_a_duration_is_said_in_the_two_units_that_matter(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_a_short_finished_duration_is_exact_and_none_is_negative() -> None:
    assert duration(0.44, exact=True) == "0.4 s"
    assert duration(-5) == "0 s"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "now"), (4, "now"), (12, "12 s ago"), (1380, "23 min ago"), (7200, "2 h ago"), (90000, "1 d ago")],
)
def test_an_age_is_said_shortly(seconds: float, said: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert words.ago(now - timedelta(seconds=seconds), now) == said


@pytest.mark.feature("U1.list")
def test_every_status_differs_from_every_other_by_shape_or_colour_and_by_its_word() -> None:
    for shown in (
        [badges.runner_badge(each) for each in RunnerStatus],
        [badges.job_badge(each) for each in JobStatus],
    ):
        assert len({badge.word for badge in shown}) == len(shown)
        assert len({(badge.tone, badge.shape) for badge in shown}) >= len(shown) - 1  # two busy ones look alike


def test_a_running_job_says_what_it_is_doing_unless_it_is_being_stopped_or_lost() -> None:
    assert badges.job_badge(JobStatus.PROCESSING, Step.APPLY).word == "Applying"
    assert badges.job_badge(JobStatus.PROCESSING, Step.APPLY, is_canceling=True).word == "Canceling"
    assert badges.job_badge(JobStatus.PROCESSING, Step.APPLY, reason=Reason("silent", "")).word == "No contact"
    lost = Reason("lost", "")
    assert badges.job_badge(JobStatus.PROCESSING, Step.APPLY, is_canceling=True, reason=lost).word == "Lost"
    assert badges.job_badge(JobStatus.SUCCEEDED, is_canceling=True, reason=lost).word == "Succeeded"
    for step in Step:
        assert badges.job_badge(JobStatus.PROCESSING, step).word


def test_a_reason_becomes_a_sentence() -> None:
    assert words.sentence("the module is busy with job #4") == "The module is busy with job #4."
    assert words.sentence("what? ") == "What?"
    assert words.sentence("") == ""
    assert words.job_type(JobType.DESTROY) == "Destroy"


def test_everything_that_an_input_can_say_about_a_job_has_words() -> None:
    assert tuple(place_words.DEFINITIONS) == get_args(Definition)


def test_every_reason_for_waiting_says_whether_a_person_has_to_act() -> None:
    """A job that no dispatcher could run was shown without a warning, because one of several lists of reasons lacked it."""
    assert set(words.REASONS) == set(fields.describe(Reason)["code"].choices)


def test_an_address_breaks_after_its_slashes_and_stays_text() -> None:
    """It broke inside words: `https://127.0.0.1:74` and `50/infrastructure.gi` were lines."""
    assert render.environment().from_string("{{ text|breakable }}").render(text="https://a.example/b<i>/c/") == (
        "https://<wbr>a.example/<wbr>b&lt;i&gt;/<wbr>c/"
    )
