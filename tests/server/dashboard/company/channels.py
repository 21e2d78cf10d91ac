"""Channels of the company: a webhook with messages in every condition, Slack with a bot token, and one for e-mail."""

from datetime import UTC, datetime, timedelta

from terracrew import ids
from terracrew.api.notifications import ChannelKind, DeliveryStatus, NotificationContent, NotificationEvent
from terracrew.server.announcements import channel_store
from terracrew.server.announcements.delivery_store import DELIVERIES
from terracrew.server.announcements.model import SealedChannel, StoredDelivery
from terracrew.server.db.statements.mapping import to_params
from tests.server.dashboard.company.rows import Company


async def channels(made: Company, module: str, path: str) -> None:
    """`module` has a channel of its own, beside those of a group and of the organization."""
    root, group = await made.group(""), await made.group("payments/prod")
    events: list[NotificationEvent] = ["approval_wanted", "job_failed", "job_lost", "drift", "runner_offline"]
    hook = await _channel(made, root, "", "incident-desk", "webhook", "hooks.incidents.example.com", events)
    slack = await _channel(
        made, group, "payments/prod", "payments", "slack", "slack.com", events[:2], slack_channel="C0123456789"
    )
    people = ["payments-oncall@example.com", "platform@example.com"]
    await _channel(made, module, path, "owners", "email", "e-mail", ["job_lost"], recipients=people, is_enabled=False)
    refused = "the receiver answered 503"
    await _delivery(made, hook, 50, "DELIVERED", "job_failed", "APPLY #431 failed", path, status=204)
    await _delivery(
        made, hook, 30, "GIVEN_UP", "drift", "Drift: 2 new, 1 gone", path, tries=31, error=refused, status=503
    )
    await _delivery(
        made, hook, 0.1, "WAITING", "runner_offline", "2 runners are offline", "", tries=3, error=refused, status=503
    )
    await _delivery(made, slack, 2, "DELIVERED", "approval_wanted", "APPLY #440 wants an approval", path, status=200)


async def _channel(
    made: Company,
    place: str,
    path: str,
    name: str,
    kind: ChannelKind,
    target: str,
    events: list[NotificationEvent],
    *,
    recipients: list[str] | None = None,
    slack_channel: str = "",
    is_enabled: bool = True,
) -> str:
    channel = SealedChannel(
        id=ids.new("nch"),
        organization_id=made.organization_id,
        place_id=place,
        path=path,
        name=name,
        kind=kind,
        events=events,
        is_enabled=is_enabled,
        target=target,
        recipients=recipients or [],
        slack_channel=slack_channel,
        created_by=made.user_id,
        created_by_name="priya",
        created_at=datetime.fromtimestamp(made.now, UTC) - timedelta(days=40),
        sealed=None if kind == "email" else b"no page reads it",
    )
    await channel_store.insert(made.tx, channel)
    return channel.id


async def _delivery(
    made: Company,
    channel: str,
    hours: float,
    became: DeliveryStatus,
    event: NotificationEvent,
    title: str,
    path: str,
    *,
    tries: int = 1,
    error: str = "",
    status: int | None = None,
) -> None:
    now = datetime.fromtimestamp(made.now, UTC)
    at = now - timedelta(hours=hours)
    delivery = StoredDelivery(
        channel_id=channel,
        notification_id=ids.new("ntf"),
        event=event,
        path=path,
        subject_id="job_1",
        content=NotificationContent(title=title, link="/dashboard/jobs"),
        status=became,
        tries=tries,
        created_at=at,
        since=at,
        next_at=now + timedelta(minutes=9) if became == "WAITING" else None,
        sending_until=None,
        ended_at=None if became == "WAITING" else at,
        answer_status=status,
        error=error,
        thread="",
    )
    await made.tx.run(DELIVERIES.insert(), **to_params(delivery))
