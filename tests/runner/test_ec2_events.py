"""The pages of the instance metadata as announced ends, and their times."""

import pytest

from terracrew.runner import notices
from terracrew.runner.notices import AnnouncedEnd, MetadataAnswers

NOON = 1_731_931_200.0
"""2024-11-18 12:00:00 UTC."""


def scheduled(code: str, not_before: str = "18 Nov 2024 12:10:00 GMT", state: str = "active") -> str:
    return (
        f'[{{"Code": "{code}", "Description": "scheduled", "EventId": "instance-event-1", "NotAfter": "18 Nov 2024 14:00:00 GMT",'
        f' "NotBefore": "{not_before}", "State": "{state}"}}]'
    )


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (MetadataAnswers(), None),
        (
            MetadataAnswers(spot='{"action": "terminate", "time": "2024-11-18T12:02:00Z"}'),
            AnnouncedEnd("spot notice", NOON + 120, is_final=True),
        ),
        (MetadataAnswers(rebalance='{"noticeTime": "2024-11-18T12:00:00Z"}'), AnnouncedEnd("rebalance recommendation")),
        (
            MetadataAnswers(scheduled=scheduled("instance-retirement")),
            AnnouncedEnd("scheduled retirement", NOON + 600),
        ),
        (MetadataAnswers(scheduled=scheduled("system-reboot")), AnnouncedEnd("scheduled reboot", NOON + 600)),
        (MetadataAnswers(scheduled=scheduled("system-maintenance")), AnnouncedEnd("scheduled maintenance", NOON + 600)),
        (MetadataAnswers(scheduled=scheduled("system-reboot", "2 Dec 2024 12:00:00 GMT")), None),
        (MetadataAnswers(scheduled=scheduled("system-reboot", state="completed")), None),
        (MetadataAnswers(scheduled="[]"), None),
        (MetadataAnswers(lifecycle="InService"), None),
        (MetadataAnswers(lifecycle="Terminated"), AnnouncedEnd("termination by its Auto Scaling group")),
        (MetadataAnswers(lifecycle="Warmed:Stopped\n"), AnnouncedEnd("termination by its Auto Scaling group")),
    ],
)
@pytest.mark.feature("O2.notices")
def test_each_notice_has_its_words_and_its_time(answers: MetadataAnswers, expected: AnnouncedEnd | None) -> None:
    assert notices.announced(answers, NOON) == expected


def test_the_end_that_comes_first_counts_and_one_without_a_time_comes_last() -> None:
    answers = MetadataAnswers(
        spot='{"action": "stop", "time": "2024-11-18T12:02:00Z"}',
        rebalance='{"noticeTime": "2024-11-18T12:00:00Z"}',
        scheduled=scheduled("instance-stop"),
        lifecycle="Terminated",
    )
    assert notices.announced(answers, NOON) == AnnouncedEnd("spot notice", NOON + 120, is_final=True)


@pytest.mark.parametrize(
    "answers",
    [
        MetadataAnswers(spot="<html>"),
        MetadataAnswers(spot='{"action": "terminate"}'),
        MetadataAnswers(spot='{"action": "terminate", "time": "soon"}'),
        MetadataAnswers(scheduled='{"Code": "system-reboot"}'),
        MetadataAnswers(scheduled='[{"NotBefore": "some day"}]'),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_and_no_notice(answers: MetadataAnswers) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each decoder has its own words
        notices.announced(answers, NOON)
