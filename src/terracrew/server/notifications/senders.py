"""Sends one message by one channel, and says what became of it."""

import math
import time
from collections.abc import Callable
from http import HTTPStatus

from terracrew.errors import TerracrewError
from terracrew.server.notifications import slack, teams, webhooks
from terracrew.server.notifications.mail import Mailer
from terracrew.server.notifications.model import Outbound, SendResult, failed
from terracrew.server.outgoing.answers import NotSent, OutgoingAnswer
from terracrew.server.outgoing.client import OutgoingClient

_MAX_ANSWER_CHARACTERS = 200


class Senders:
    def __init__(self, client: OutgoingClient, mailer: Mailer, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives the time that messages are signed with, in seconds since 1970."""
        self._client, self.mailer, self._clock = client, mailer, clock

    async def send(self, outbound: Outbound) -> SendResult:
        """Try once. Whatever goes wrong is a result: it is shown to people, so it never has a secret."""
        channel = outbound.channel
        try:
            if channel.kind == "email":
                return await self.mailer.send(outbound)
            if channel.kind == "slack":
                request = slack.request(outbound)
            elif channel.kind == "teams":
                request = teams.request(outbound)
            else:
                request = webhooks.request(outbound, self._clock())
            answer = await self._client.send(channel.organization_id, request)
        except NotSent as failure:
            return failed(failure.reason)
        except TerracrewError as error:
            return failed(error.message)
        if not answer.is_success:
            return refusal(answer, shows_body=channel.kind != "webhook")
        if channel.kind == "slack" and outbound.secrets.token:
            return slack.bot_result(answer)
        return SendResult(is_delivered=True, answer_status=answer.status)


def refusal(answer: OutgoingAnswer, *, shows_body: bool) -> SendResult:
    """Say why a receiver did not take a message. `shows_body`: the body of its answer is shown, unless it may be an internal page."""
    words = f"the receiver answered {answer.status}"
    if 300 <= answer.status < 400:
        words += ": redirects are not followed, so enter the address that it leads to"
    elif answer.status == HTTPStatus.GONE:
        words += ": it wants no more messages"
    elif shows_body and not answer.is_private and (text := _printable(answer.body)):
        words += f": {text}"
    return failed(
        words,
        answer.status,
        retry_seconds=_retry_after(answer),
        is_final=answer.status == HTTPStatus.GONE,
    )


def _printable(body: bytes) -> str:
    text = body[: _MAX_ANSWER_CHARACTERS * 4].decode("utf-8", "replace")[:_MAX_ANSWER_CHARACTERS]
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _retry_after(answer: OutgoingAnswer) -> float:
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0
