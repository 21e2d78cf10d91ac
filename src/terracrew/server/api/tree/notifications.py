"""The channels that people are told by, and what became of their messages, over HTTP."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.notifications import (
    Channel,
    ChannelChange,
    ChannelTest,
    ChannelView,
    CreatedChannel,
    NewChannel,
    NotificationDelivery,
)
from terracrew.api.pages import Page
from terracrew.server.api.context import TreeCall
from terracrew.server.http.request import tree_path
from terracrew.server.notifications import service

Place = Annotated[
    str | None,
    QueryParameter(
        description="Only those that tell of this group or module, by its path or id; `/` for the organization"
    ),
]
Count = Annotated[
    int, QueryParameter(description="How many of the newest messages", ge=1, le=service.MAX_SHOWN_DELIVERIES)
]


@get("/notification-channels", summary="List notification channels")
async def list_channels(request: TreeCall, place: Place = None) -> Page[ChannelView]:
    """List the channels that the caller may see; with a group or module, those that tell of it: its own, and those of the groups above."""
    return Page(await request.read(service.listing, place))


@post("/notification-channels", summary="Create a notification channel")
async def create(request: TreeCall, data: JSONBody[NewChannel]) -> CreatedChannel:
    """Create a channel at a group or module, which tells of what happens there and below. The answer has the secret that the messages
    of a webhook are signed with. It is shown this once; addresses and tokens cannot be read back at all.
    """
    return await request.context.channels.create(request.user, data)


@get("/notification-channels/{channel:str}", summary="Show a notification channel")
async def show(request: TreeCall, channel: FromPath[str]) -> ChannelView:
    """Show a channel, by its id or its path (`group/name`), without its secrets."""
    return await request.read(service.show, tree_path(channel))


@patch("/notification-channels/{channel:str}", summary="Change a notification channel")
async def update(request: TreeCall, channel: FromPath[str], data: JSONBody[ChannelChange]) -> Channel:
    """Change a channel. An address or a token that is left out or empty stays."""
    return await request.context.channels.change(request.user, tree_path(channel), data)


@delete("/notification-channels/{channel:str}", summary="Delete a notification channel")
async def remove(request: TreeCall, channel: FromPath[str]) -> None:
    """Delete a channel, with what it has not sent yet."""
    await request.write(service.delete, tree_path(channel))


@post("/notification-channels/{channel:str}/secret", summary="Replace the secret of a webhook")
async def replace_secret(request: TreeCall, channel: FromPath[str]) -> CreatedChannel:
    """Make another secret for a webhook and show it this once. The earlier one ends at once."""
    return await request.context.channels.replace_secret(request.user, tree_path(channel))


@post("/notification-channels/{channel:str}/test", status_code=200, summary="Send a test message")
async def test(request: TreeCall, channel: FromPath[str]) -> ChannelTest:
    """Send a message by a channel now, and answer with what became of it. It is tried once."""
    return await request.context.channels.test(request.user, tree_path(channel))


@get("/notification-channels/{channel:str}/deliveries", summary="List what a channel has sent")
async def list_deliveries(request: TreeCall, channel: FromPath[str], limit: Count = 50) -> Page[NotificationDelivery]:
    """List the newest messages of a channel, and what became of each."""
    return Page(await request.read(service.last_deliveries, tree_path(channel), limit))


@post(
    "/notification-channels/{channel:str}/deliveries/{notification:str}/send-again",
    status_code=200,
    summary="Send a message again",
)
async def send_again(request: TreeCall, channel: FromPath[str], notification: FromPath[str]) -> NotificationDelivery:
    """Send a message once more, whatever became of it. Its id stays, so that a receiver can tell that it has it already."""
    return await request.write(service.send_again, tree_path(channel), notification)
