"""E-mail, by the mail server of the server's settings. All messages about one job are one thread."""

import asyncio
import html
import re
import smtplib
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import urlsplit

import msgspec

from terracrew.server.notifications.model import Outbound, SendResult, failed
from terracrew.server.outgoing.answers import connection_problem
from terracrew.settings.server import ServerSettings
from terracrew.wording import notification_words as words

STEP_SECONDS = 10.0
"""For one exchange with the mail server."""
MAX_SECONDS = 45.0
"""For a whole message."""
_MAX_SENDING = 4
_NOT_IN_IDS = re.compile(r"[^\w.-]", re.ASCII)
_PERMANENT_CODE = 500
"""Reply codes from here on say that the mail server will never take the message."""


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int
    tls: str
    user: str
    password: str
    sender: str
    own_name: str
    """What this server calls itself, and what its message ids end with."""

    def __repr__(self) -> str:
        return f"MailServer({self.host}:{self.port})"


def of_settings(settings: ServerSettings) -> MailServer | None:
    """Return the mail server of the settings; None if they name none."""
    if not settings.smtp_host:
        return None
    usual = {"tls": 465, "starttls": 587, "none": 25}
    own_name = urlsplit(settings.url).hostname or "localhost"
    return MailServer(
        host=settings.smtp_host,
        port=settings.smtp_port or usual[settings.smtp_tls],
        tls=settings.smtp_tls,
        user=settings.smtp_user,
        password=settings.smtp_password.get_secret_value() if settings.smtp_password else "",
        sender=settings.smtp_sender or f"terracrew@{own_name}",
        own_name=own_name,
    )


class Mailer:
    """Sends in threads of its own: the library blocks, and a mail server may be slow."""

    def __init__(self, server: MailServer | None) -> None:
        self._server = server
        self._threads = ThreadPoolExecutor(_MAX_SENDING, "mail")

    @property
    def has_server(self) -> bool:
        return self._server is not None

    async def send(self, outbound: Outbound) -> SendResult:
        server = self._server
        if server is None:
            return failed("this server has no mail server: set `smtp_host` in its settings")
        message, recipients = compose(server, outbound), outbound.channel.recipients
        try:
            async with asyncio.timeout(MAX_SECONDS):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._threads, _deliver, server, message, recipients)
        except TimeoutError:
            return failed(f"the mail server {server.host} did not take the message within {MAX_SECONDS:g} seconds")


def compose(server: MailServer, outbound: Outbound) -> EmailMessage:
    """Return the message. Every header is one line, and everything from outside is escaped in the HTML part."""
    message = outbound.message
    content = message.content
    mail = EmailMessage()
    mail["Subject"] = _line(f"[Terracrew] {words.headline(message.path, content.title)}")
    mail["From"] = server.sender
    mail["To"] = ", ".join(outbound.channel.recipients)
    mail["Date"] = format_datetime(message.at)
    mail["Message-ID"] = f"<{message.id}.{outbound.channel.id}@{server.own_name}>"
    if message.subject_id:
        mail["References"] = f"<{_NOT_IN_IDS.sub('-', message.subject_id)}@{server.own_name}>"
    mail["Auto-Submitted"] = "auto-generated"
    facts = [f"{name}: {value}" for name, value in content.facts.items()]
    parts = [words.headline(message.path, content.title), content.text, "\n".join(facts), message.url]
    mail.set_content("\n\n".join(part for part in parts if part) + "\n")
    mail.add_alternative(_html(outbound), subtype="html")
    return mail


def _html(outbound: Outbound) -> str:
    message = outbound.message
    content = message.content
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in content.facts.items()
    )
    return "".join(
        [
            f"<h2>{html.escape(words.headline(message.path, content.title))}</h2>",
            f'<p style="white-space:pre-wrap">{html.escape(content.text)}</p>' if content.text else "",
            f'<table cellpadding="4">{rows}</table>' if rows else "",
            f'<p><a href="{html.escape(message.url)}">Open in Terracrew</a></p>' if message.url else "",
        ]
    )


def _line(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _deliver(server: MailServer, message: EmailMessage, recipients: Sequence[str]) -> SendResult:
    try:
        with _connected(server) as smtp:
            refused = smtp.send_message(message, server.sender, list(recipients))
    except smtplib.SMTPRecipientsRefused as error:
        code, words_of_server = next(iter(error.recipients.values()))
        is_final = all(code >= _PERMANENT_CODE for code, _ in error.recipients.values())
        return failed(f"the mail server refused every address: {_text(words_of_server)}", code, is_final=is_final)
    except smtplib.SMTPAuthenticationError as error:
        return failed("the mail server refused the user or the password of the settings", error.smtp_code)
    except smtplib.SMTPResponseException as error:
        return failed(f"the mail server refused the message: {_text(error.smtp_error)}", error.smtp_code)
    except (OSError, smtplib.SMTPException) as error:
        return failed(f"the mail server cannot be used: {connection_problem(error, server.host)}")
    if refused:
        return SendResult(is_delivered=True, answer_status=250, error=f"refused: {', '.join(refused)}"[:500])
    return SendResult(is_delivered=True, answer_status=250)


def _connected(server: MailServer) -> smtplib.SMTP:
    if server.tls == "tls":
        context = ssl.create_default_context()
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, server.own_name, timeout=STEP_SECONDS, context=context
        )
    else:
        smtp = smtplib.SMTP(server.host, server.port, server.own_name, timeout=STEP_SECONDS)
    try:
        if server.tls == "starttls":
            smtp.starttls(context=ssl.create_default_context())
        if server.user:
            smtp.login(server.user, server.password)
    except BaseException:
        smtp.close()
        raise
    return smtp


def _text(reply: bytes | str) -> str:
    return (reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply).replace("\n", " ")[:300]
