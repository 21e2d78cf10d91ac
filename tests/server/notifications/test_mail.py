"""E-mail goes to a mail server of the settings. The mail server of these tests is a real one, with TLS and a password."""

import asyncio
import email
import email.policy
import ssl
from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from tests.machine.certificates import certificate
from tests.server.application import Application, on_one, open_application
from tests.server.notifications.telling import CHANNELS, Telling

pytestmark = [on_one, pytest.mark.feature("M3.email")]
PASSWORD = "mail-s3cret"


class Mailbox:
    """What a mail server does with messages: it keeps them, or refuses addresses."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.refusal = ""

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if self.refusal:
            return self.refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.received.append(envelope)
        return "250 OK"

    def mail(self) -> EmailMessage:
        [envelope] = self.received
        return email.message_from_bytes(envelope.content, policy=email.policy.default)


def _is_user(server: Any, session: Any, envelope: Any, mechanism: str, login: LoginPassword) -> AuthResult:
    return AuthResult(success=(login.login, login.password) == (b"crew", PASSWORD.encode()), handled=False)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
async def port(mailbox: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A mail server that takes mail after STARTTLS and a login, with a certificate that this machine trusts."""
    crt, key = certificate(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(crt))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(crt, key)

    def accept() -> SMTP:
        return SMTP(mailbox, tls_context=tls, require_starttls=True, authenticator=_is_user, auth_required=True)

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


def settings(port: int) -> dict[str, Any]:
    return {
        "smtp_host": "127.0.0.1",
        "smtp_port": port,
        "smtp_user": "crew",
        "smtp_password": PASSWORD,
        "smtp_sender": "crew@example.com",
        "public_url": "https://crew.example",
    }


@pytest.fixture
async def application(database_url: str, memory_path: Path, port: int) -> AsyncIterator[Application]:
    async with open_application(database_url, memory_path / "data", **settings(port)) as opened:
        yield opened


async def test_people_get_a_message_with_everything_escaped(telling: Telling, mailbox: Mailbox) -> None:
    channel = await telling.channel("email", recipients=["a@example.com", "b@example.com"])
    await telling.announce("Job <b>#1</b> failed", text="<script>alert(1)</script>", facts={"Failure": "<i>"})
    await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["answer_status"], found["error"]) == ("DELIVERED", 250, "")
    [envelope] = mailbox.received
    assert envelope.rcpt_tos == ["a@example.com", "b@example.com"]
    assert envelope.mail_from == "crew@example.com"
    mail = mailbox.mail()
    assert mail["Subject"] == "[Terracrew] Job <b>#1</b> failed"
    assert mail["From"] == "crew@example.com"
    assert mail["Message-ID"] == f"<{found['notification_id']}.{channel['id']}@crew.example>"
    assert mail["References"] == "<job_1@crew.example>"
    plain, html = (part.get_content() for part in mail.iter_parts())  # type: ignore[attr-defined]
    assert "https://crew.example/dashboard/jobs/job_1" in plain
    assert "<script>" in plain
    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


async def test_no_header_is_injected_by_a_name(telling: Telling, mailbox: Mailbox) -> None:
    await telling.channel("email", recipients=["a@example.com"])
    await telling.announce("Job\r\nBcc: eve@example.com\r\n\r\nbody", subject="job_1\r\nX-Evil: 1")
    await telling.sending.step()
    mail = mailbox.mail()
    assert mail["Bcc"] is None
    assert mail["X-Evil"] is None
    assert mail["Subject"] == "[Terracrew] Job Bcc: eve@example.com body"
    assert mailbox.received[0].rcpt_tos == ["a@example.com"]


@pytest.mark.parametrize(
    ("refusal", "status", "error"),
    [
        ("550 no such user", "GIVEN_UP", "the mail server refused every address: no such user"),
        ("451 try later", "WAITING", "the mail server refused every address: try later"),
    ],
)
async def test_what_the_mail_server_refuses_for_good_is_given_up(
    telling: Telling, mailbox: Mailbox, refusal: str, status: str, error: str
) -> None:
    await telling.channel("email", recipients=["a@example.com"])
    mailbox.refusal = refusal
    await telling.announce()
    await telling.sending.step()
    found = await telling.delivery()
    assert (found["status"], found["answer_status"], found["error"]) == (status, int(refusal[:3]), error)


async def test_a_wrong_password_is_an_error_without_the_password(
    database_url: str, memory_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = settings(port)
    wrong["smtp_password"] = "wr0ng"
    async with open_application(database_url, memory_path / "data", clock=None, **wrong) as application:
        telling = Telling(application)
        await telling.channel("email", recipients=["a@example.com"])
        answer = (await application.admin.post(f"{CHANNELS}/ops/test")).json()
    assert answer["answer_status"] == 535
    assert answer["error"] == "the mail server refused the user or the password of the settings"
    assert "wr0ng" not in caplog.text


async def test_a_mail_server_that_nobody_trusts_gets_nothing(
    telling: Telling, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    await telling.channel("email", recipients=["a@example.com"])
    await telling.announce()
    await telling.sending.step()
    error = (await telling.delivery())["error"]
    assert error.startswith("the mail server cannot be used: the certificate of 127.0.0.1 is not valid here: self")
    assert mailbox.received == []
