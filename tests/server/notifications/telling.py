"""Creates channels by the API, lets the server announce something, and sends it."""

from typing import Any

from terracrew.api.notifications import EVENTS, NotificationContent, NotificationEvent
from terracrew.server.announcements import service
from terracrew.server.announcements.model import Announcement
from terracrew.server.notifications.sending import Sending
from tests.machine.receiver import Receiver
from tests.server.application import Application

CHANNELS = "/api/v1/notification-channels"


class Telling:
    def __init__(self, application: Application) -> None:
        self.application, self.server = application, application.server
        self.sending = self.another_server()

    def another_server(self) -> Sending:
        """The loop of a server on the same database."""
        server = self.server
        return Sending(server.db, server.keys, server.senders, "https://crew.example")

    async def channel(self, kind: str = "webhook", **fields: Any) -> dict[str, Any]:
        """Create a channel for all events; returns it with its secret."""
        wanted = {"name": "ops", "kind": kind, "events": list(EVENTS)} | fields
        made = await self.application.admin.made(CHANNELS, wanted)
        return made["channel"] | {"secret": made["secret"]}

    async def webhook(self, receiver: Receiver, **fields: Any) -> dict[str, Any]:
        return await self.channel(url=f"{receiver.url}/secret-path", **fields)

    async def announce(
        self, title: str = "Job #1 failed", event: NotificationEvent = "job_failed", subject: str = "job_1", **more: Any
    ) -> None:
        content = NotificationContent(title=title, link="/dashboard/jobs/job_1", **more)
        announced = Announcement(
            event=event, organization_id=self.server.organization_id, subject_id=subject, content=content
        )
        await self.server.db.write(lambda tx: service.announce(tx, announced))

    async def deliveries(self, name: str = "ops") -> list[dict[str, Any]]:
        """What became of the messages of a channel, the newest first."""
        answer = await self.application.admin.get(f"{CHANNELS}/{name}/deliveries")
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]

    async def delivery(self, name: str = "ops") -> dict[str, Any]:
        [found] = await self.deliveries(name)
        return found
