"""`terracrew notification`: manages the channels that people are told by, tests them, and shows what became of their messages."""

import io

import click

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
from terracrew.cli.arguments import name_completion, options, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.wording import notification_words as words

_channel = click.argument("channel", shell_complete=name_completion.notification_channels)


def _content(_context: click.Context, _option: click.Parameter, file: io.TextIOBase | None) -> str | None:
    """Return the secret in a file. Editors end a file with a line break, which is no part of it."""
    return None if file is None else file.read().strip()


_url_file = click.option(
    "--url-file",
    "url",
    type=click.File(),
    callback=_content,
    metavar="FILE",
    help="A file with the address that gets the messages; `-` reads it from the input.",
)
_token_file = click.option(
    "--token-file",
    "token",
    type=click.File(),
    callback=_content,
    metavar="FILE",
    help="Slack: a file with a bot token, with which the messages of a job are one thread.",
)


@click.group("notification", cls=LazyGroup)
def notification() -> None:
    """Manage the channels that people are told by: webhooks, Slack, Teams and e-mail.

    CHANNEL is the path of a channel (`group/name`) or its id.
    """


@notification.command("list", epilog=output.examples("terracrew notification list", "terracrew notification list shop"))
@click.argument("place", required=False, shell_complete=name_completion.places)
@output.with_target
def list_channels(target: Target, place: str | None) -> output.CommandResult:
    """List the channels that you may see, or those of them that tell of PLACE, a group or module; `/` is the organization."""
    items = list(target.api().list("/notification-channels", ChannelView, place=place))
    rows = [
        (_label(each), words.KINDS[each.kind], words.target(each), _events(each), _condition(each)) for each in items
    ]
    notes = [f"{_label(each)}: {each.problem}" for each in items if each.problem]
    empty = "no channels: `terracrew notification create NAME --kind webhook --url-file FILE`"
    return output.listing(items, ("CHANNEL", "KIND", "TO", "EVENTS", ""), rows, empty=empty, notes=notes)


@notification.command(
    "create",
    epilog=output.examples(
        "terracrew notification create ops --kind webhook --url-file url.txt",
        "terracrew notification create mail --kind email --to team@example.com \\",
        "    --place shop --event job_failed",
    ),
)
@click.argument("name")
@click.option("--kind", type=click.Choice(list(words.KINDS)), required=True, help="What gets the messages.")
@click.option(
    "--place",
    default="",
    shell_complete=name_completion.places,
    help="The group or module that it tells of; by default the organization.",
)
@_url_file
@_token_file
@settings.request_options(NewChannel, "new", own=("name", "kind", "place", "url", "token"), defaults=NewChannel)
@output.with_target
def create(target: Target, new: NewChannel) -> output.CommandResult:
    """Create a channel called NAME. Secrets are read from files, because everybody on a machine can see arguments."""
    made = target.api().post("/notification-channels", new, CreatedChannel)
    return _created(made, "created")


@notification.command("show", epilog=output.examples("terracrew notification show shop/ops"))
@_channel
@output.with_target
def show(target: Target, channel: str) -> output.CommandResult:
    """Show CHANNEL. Its address and its secrets are never shown."""
    found = target.api().get(_api_path(channel), ChannelView)
    return output.details(
        found,
        [
            ("channel", _label(found)),
            ("id", found.id),
            ("kind", words.KINDS[found.kind]),
            ("tells of", words.place(found.path)),
            ("to", words.target(found)),
            ("events", _events(found)),
            ("enabled", "yes" if found.is_enabled else "no"),
            ("problem", found.problem),
            ("created", f"{output.age(found.created_at)} by {found.created_by_name}"),
        ],
    )


@notification.command("update", epilog=output.examples("terracrew notification update shop/ops --no-enabled"))
@_channel
@_url_file
@_token_file
@settings.request_options(ChannelChange, own=("url", "token"))
@output.with_target
def update(target: Target, channel: str, change: ChannelChange) -> output.CommandResult:
    """Change CHANNEL. What is left out stays."""
    settings.read_changes(change)
    made = target.api().patch(_api_path(channel), change, Channel)
    return output.message(made, f"changed the channel {_label(made)}")


@notification.command("replace-secret", epilog=output.examples("terracrew notification replace-secret shop/ops"))
@_channel
@output.with_target
def replace_secret(target: Target, channel: str) -> output.CommandResult:
    """Make another secret for the webhook CHANNEL, and print it this once. The earlier one ends at once."""
    made = target.api().post(f"{_api_path(channel)}/secret", {}, CreatedChannel)
    return _created(made, "replaced the secret of")


@notification.command("delete", epilog=output.examples("terracrew notification delete shop/ops --yes"))
@_channel
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, channel: str, yes: bool) -> output.CommandResult:
    """Delete CHANNEL, with what it has not sent yet."""
    if not yes:
        output.ask(f"The channel {channel} is deleted. Nobody is told by it any more.", "Not deleted.")
    target.api().delete(_api_path(channel))
    return output.message({"deleted": channel}, f"deleted {channel}")


@notification.command("test", epilog=output.examples("terracrew notification test shop/ops"))
@_channel
@output.with_target
def test(target: Target, channel: str) -> output.CommandResult:
    """Send a message by CHANNEL now, and say what became of it. The exit code is 1 if it did not arrive."""
    found = target.api().post(f"{_api_path(channel)}/test", {}, ChannelTest)
    answer = f" (answer {found.answer_status})" if found.answer_status else ""
    said = f"delivered{answer}" if found.is_delivered else f"not delivered: {found.error}"
    return output.CommandResult(found, lambda: output.note(said), exit_code=0 if found.is_delivered else 1)


@notification.command("deliveries", epilog=output.examples("terracrew notification deliveries shop/ops"))
@_channel
@options.limit(100, 50, "How many of the newest messages.")
@output.with_target
def list_deliveries(target: Target, channel: str, limit: int) -> output.CommandResult:
    """List the newest messages of CHANNEL, and what became of each."""
    page = target.api().get(f"{_api_path(channel)}/deliveries", Page[NotificationDelivery], limit=limit)
    items = page.items
    rows = [
        (
            each.notification_id,
            output.age(each.created_at),
            words.headline(each.path, each.content.title),
            each.status,
            str(each.tries),
            str(each.answer_status or ""),
            each.error,
        )
        for each in items
    ]
    columns = ("MESSAGE", "AGE", "ABOUT", "STATUS", "TRIES", "ANSWER", "ERROR")
    return output.listing(items, columns, rows, empty="nothing was sent yet")


@notification.command(
    "send-again", epilog=output.examples("terracrew notification send-again shop/ops ntf_01890a5d-0000")
)
@_channel
@click.argument("message")
@output.with_target
def send_again(target: Target, channel: str, message: str) -> output.CommandResult:
    """Send MESSAGE of CHANNEL once more, whatever became of it; `deliveries` lists the ids."""
    path = f"{_api_path(channel)}/deliveries/{segment(message)}/send-again"
    found = target.api().post(path, {}, NotificationDelivery)
    return output.message(found, f"{found.notification_id} is sent again")


def _created(made: CreatedChannel, done: str) -> output.CommandResult:
    said = f"{done} the channel {_label(made.channel)}"
    if not made.secret:
        return output.message(made, said, f"Next: `terracrew notification test {_label(made.channel)}`")
    return output.message(made, said, f"Messages are signed with this secret, which is not shown again:\n{made.secret}")


def _label(channel: Channel) -> str:
    return f"{channel.path}/{channel.name}" if channel.path else channel.name


def _condition(channel: ChannelView) -> str:
    if not channel.is_enabled:
        return "disabled"
    return "not delivered" if channel.problem else ""


def _events(channel: Channel) -> str:
    return ", ".join(channel.events)


def _api_path(channel: str) -> str:
    """Return the path below which the API serves this channel, given its path or id."""
    return f"/notification-channels/{segment(channel)}"
