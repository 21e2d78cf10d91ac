"""Checks what people enter about a channel, and says what is wrong with it. All functions are pure."""

import re
from urllib.parse import urlsplit

from terracrew.api.notifications import NewChannel
from terracrew.errors import Invalid
from terracrew.server.notifications.model import ChannelSecrets
from terracrew.server.notifications.slack import API

MAX_URL_CHARACTERS = 2_000
MAX_RECIPIENTS = 20
MAX_ADDRESS_CHARACTERS = 254
_PRINTABLE_ASCII = re.compile(r"[!-~]+")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_SLACK_CHANNEL = re.compile(r"[#@]?[\w.-]{1,80}")
_TOKEN = re.compile(r"[A-Za-z0-9-]{10,500}")


def check(wanted: NewChannel, secrets: ChannelSecrets, *, has_mail_server: bool) -> None:
    """Raise an error that names the field that is wrong. `secrets` are those that the channel is going to have."""
    if not wanted.events:
        raise Invalid.in_field("events", "choose at least one event")
    if len(set(wanted.events)) != len(wanted.events):
        raise Invalid.in_field("events", "an event is named twice")
    _check_fields_of_kind(wanted, secrets)
    if wanted.kind == "email":
        _check_recipients(wanted.recipients)
        if not has_mail_server:
            raise Invalid.in_field(
                "kind", "this server has no mail server: an administrator names one with the setting `smtp_host`"
            )
    elif wanted.kind == "slack" and secrets.token:
        _check_bot(wanted.slack_channel, secrets)
    else:
        _check_url(secrets.url)


def target(kind: str, secrets: ChannelSecrets) -> str:
    """Return where messages go, as far as it is no secret: the path of an address usually is one."""
    if kind == "email":
        return "e-mail"
    return urlsplit(secrets.url or API).hostname or ""


def _check_fields_of_kind(wanted: NewChannel, secrets: ChannelSecrets) -> None:
    if wanted.kind != "email" and wanted.recipients:
        raise Invalid.in_field("recipients", "only a channel for e-mail has recipients")
    if wanted.kind == "email" and secrets.url:
        raise Invalid.in_field("url", "a channel for e-mail has recipients, and no address of its own")
    if wanted.kind != "slack" and secrets.token:
        raise Invalid.in_field("token", "only a channel for Slack has a token")
    if wanted.slack_channel and not (wanted.kind == "slack" and secrets.token):
        raise Invalid.in_field(
            "slack_channel", "only a bot token needs it: an incoming webhook belongs to one channel of Slack"
        )


def _check_bot(channel: str, secrets: ChannelSecrets) -> None:
    if not _TOKEN.fullmatch(secrets.token):
        raise Invalid.in_field("token", "this is not a bot token: it looks like xoxb-1234-5678-AbCd")
    if not _SLACK_CHANNEL.fullmatch(channel):
        raise Invalid.in_field("slack_channel", "name the channel of Slack, by its id such as C0123456789")
    if secrets.url:
        _check_url(secrets.url)


def _check_url(url: str) -> None:
    """Check the form of an address. The message never repeats it, because it usually contains a secret.

    Whether it is a public one is known only when it is connected to.
    """
    wrong = "this is not an address such as https://example.com/hooks/1"
    if not url:
        raise Invalid.in_field("url", "the address that gets the messages is missing")
    if len(url) > MAX_URL_CHARACTERS or not _PRINTABLE_ASCII.fullmatch(url):
        raise Invalid.in_field("url", f"{wrong}: it has at most {MAX_URL_CHARACTERS} printable ASCII characters")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid.in_field("url", wrong) from None
    if parts.scheme not in ("https", "http") or not parts.hostname or "@" in parts.netloc or parts.fragment:
        raise Invalid.in_field("url", f"{wrong}: it has no user, no password and no `#`")


def _check_recipients(recipients: list[str]) -> None:
    if not 0 < len(recipients) <= MAX_RECIPIENTS:
        raise Invalid.in_field("recipients", f"name 1 to {MAX_RECIPIENTS} addresses")
    for address in recipients:
        if len(address) > MAX_ADDRESS_CHARACTERS or not _ADDRESS.fullmatch(address):
            raise Invalid.in_field("recipients", f"{address[:100]!r} is not an address such as team@example.com")
