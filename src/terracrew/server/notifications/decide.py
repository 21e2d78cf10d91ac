"""Decides what becomes of a delivery after a try. The function is pure; the store writes by compare-and-set."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from terracrew import backoff
from terracrew.server.announcements.model import StoredDelivery
from terracrew.server.notifications.model import SendResult

FIRST_RETRY_SECONDS = 10.0
MAX_RETRY_SECONDS = 3600.0
GIVE_UP_SECONDS = 24 * 3600.0
"""How long a message is tried. After that a person can send it again."""
_MAX_DOUBLINGS = 10


def retry_seconds(tries: int, asked_seconds: float = 0.0) -> float:
    """Return how long to wait after so many tries: twice as long after each, around which the delays of messages are spread."""
    usual = FIRST_RETRY_SECONDS * 2 ** min(max(0, tries - 1), _MAX_DOUBLINGS)
    return max(backoff.jittered(min(usual, MAX_RETRY_SECONDS)), min(asked_seconds, MAX_RETRY_SECONDS))


def after_try(delivery: StoredDelivery, result: SendResult, now: datetime) -> StoredDelivery:
    """Return a delivery after a try: delivered, waiting for the next try, or given up."""
    tried = replace(delivery, sending_until=None, answer_status=result.answer_status, error=result.error)
    if result.is_delivered:
        thread = result.thread or delivery.thread
        return replace(tried, status="DELIVERED", next_at=None, ended_at=now, thread=thread)
    next_at = now + timedelta(seconds=retry_seconds(delivery.tries, result.retry_seconds))
    if result.is_final or next_at - delivery.since > timedelta(seconds=GIVE_UP_SECONDS):
        return replace(tried, status="GIVEN_UP", next_at=None, ended_at=now)
    return replace(tried, next_at=next_at)
