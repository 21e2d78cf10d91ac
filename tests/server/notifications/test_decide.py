"""When a message is tried again, when it is given up, and what people are told of the answer."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements.model import StoredDelivery
from terracrew.server.notifications import decide
from terracrew.server.notifications.model import SendResult, failed
from terracrew.server.notifications.senders import refusal
from terracrew.server.outgoing.answers import OutgoingAnswer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HELD = StoredDelivery(
    channel_id="nch_1",
    notification_id="ntf_1",
    event="job_failed",
    path="",
    subject_id="job_1",
    content=NotificationContent(title="x"),
    status="WAITING",
    tries=1,
    created_at=NOW,
    since=NOW,
    next_at=NOW,
    sending_until=NOW + timedelta(minutes=1),
    ended_at=None,
    answer_status=None,
    error="",
    thread="",
)
pytestmark = pytest.mark.feature("M3.delivery")


def test_the_delay_doubles_to_an_hour_and_is_spread() -> None:
    for tries, usual in ((1, 10), (2, 20), (5, 160), (9, 2560), (10, 3600), (1000, 3600)):
        found = [decide.retry_seconds(tries) for _ in range(200)]
        assert usual / 2 <= min(found) < max(found) <= usual * 1.5
        assert max(found) - min(found) > usual / 4


def test_a_receiver_cannot_ask_for_more_than_an_hour() -> None:
    assert 3600 <= decide.retry_seconds(1, 1e9) <= 3600
    assert decide.retry_seconds(1, 60) == 60


def test_a_delivery_ends_or_waits() -> None:
    done = decide.after_try(HELD, SendResult(is_delivered=True, answer_status=200, thread="17.1"), NOW)
    assert (done.status, done.next_at, done.ended_at, done.thread) == ("DELIVERED", None, NOW, "17.1")
    waiting = decide.after_try(HELD, failed("no", 500), NOW)
    assert (waiting.status, waiting.ended_at, waiting.sending_until, waiting.error) == ("WAITING", None, None, "no")
    assert waiting.next_at is not None
    assert waiting.next_at > NOW
    assert decide.after_try(HELD, failed("no", 410, is_final=True), NOW).status == "GIVEN_UP"


def test_a_message_is_given_up_after_a_day_counted_from_when_it_was_last_asked_for() -> None:
    late = NOW + timedelta(hours=24)
    assert decide.after_try(HELD, failed("no"), late).status == "GIVEN_UP"
    again = replace(HELD, since=late)
    assert decide.after_try(again, failed("no"), late).status == "WAITING"


@pytest.mark.feature("M3.slack")
def test_what_slack_itself_says_is_shown() -> None:
    """Only the answer says what is wrong with an incoming webhook. This one comes from a public address."""
    refused = OutgoingAnswer(404, {}, b"no_service")
    private = dataclasses.replace(refused, is_private=True)
    assert refusal(refused, shows_body=True).error == "the receiver answered 404: no_service"
    assert refusal(refused, shows_body=False).error == "the receiver answered 404"
    assert refusal(private, shows_body=True).error == "the receiver answered 404"
