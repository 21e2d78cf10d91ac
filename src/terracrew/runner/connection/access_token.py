"""The runner's short-lived token, which it requests with its client id and a secret or a credential helper, and renews in time."""

import asyncio
import contextlib
import threading
import time
from urllib.parse import urlencode

import msgspec
from urllib3 import BaseHTTPResponse, PoolManager
from urllib3.exceptions import HTTPError

from terracrew import errors
from terracrew.client import problems, transport
from terracrew.errors import TerracrewError, Unreachable
from terracrew.runner import one_job
from terracrew.runner.config import HelperCommand
from terracrew.runner.connection import credential_helper
from terracrew.runner.connection.worker_token import WorkerToken

PATH = "/connect/token"
_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 (a word of the standard)
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_REQUEST_SECONDS = 15.0
_RENEW_AFTER_RATIO = 0.7  # of the token's life; the rest is time to retry when the server does not answer


class RenewedToken(msgspec.Struct):
    access_token: str
    expires_in: float
    is_next_secret_accepted: bool = False


class _Refusal(msgspec.Struct):
    """An error of RFC 6749, with one of Terracrew's codes beside it."""

    error_description: str
    code: str


_HOW_TO_REGISTER_AGAIN = (
    "The server accepts none of the worker tokens that this runner has: its token was replaced elsewhere, or this machine was "
    "restored from an older image. Give it a new token: `terracrew runner register NAME --group GROUP --replace` (its name "
    "and group) prints the settings to put here; then start the runner again. "
    "If nobody restored or registered it, somebody may have used a copy of its token: see `terracrew audit`"
)
_REJECTIONS = (errors.Unauthenticated, errors.RateLimited)
"""Both mean that the secret is not valid, because rate limits do not apply to a valid one."""


class Tokens:
    def __init__(
        self, server_url: str, client_id: str, secret: WorkerToken, helper: HelperCommand | None = None
    ) -> None:
        self._url = server_url.rstrip("/") + PATH
        self._client_id, self._secret, self._helper = client_id, secret, helper
        self._pool: PoolManager = transport.pool(server_url)
        self._token = ""
        self._renew_at = 0.0
        self._exchanging = threading.Lock()
        """Serializes renewals: a thread continues when its task is cancelled, and two would overwrite each other's secrets."""

    def use(self, client_id: str, secret: WorkerToken, helper: HelperCommand | None) -> None:
        """Exchange another credential from the next renewal on, which is made as soon as a token is needed."""
        self._client_id, self._secret, self._helper = client_id, secret, helper
        self._renew_at = 0.0

    async def current(self) -> str:
        """Return a token that does not have to be renewed yet."""
        if time.monotonic() >= self._renew_at:
            await self.renew()
        return self._token

    async def renew(self) -> str:
        asked_at = time.monotonic()
        answer = await (
            self._exchange_printed(self._helper) if self._helper else asyncio.to_thread(self._exchange_alone)
        )
        self._token = answer.access_token
        self._renew_at = asked_at + answer.expires_in * _RENEW_AFTER_RATIO
        return self._token

    def drop(self) -> None:
        """Forget the token, because the server does not accept it."""
        self._renew_at = 0.0

    @property
    def seconds_left(self) -> float:
        """Return how many seconds are left until the token must be renewed."""
        return max(0.0, self._renew_at - time.monotonic())

    async def _exchange_printed(self, helper: HelperCommand) -> RenewedToken:
        """Exchange a token that the credential helper prints. It is another one each time, because a token may be accepted once."""
        token = await credential_helper.token(helper)
        form = {
            "grant_type": _TOKEN_EXCHANGE,
            "client_id": self._client_id,
            "subject_token": token,
            "subject_token_type": _JWT,
        }
        try:
            return await asyncio.to_thread(self.post, urlencode(form))
        except errors.Unauthenticated as error:
            words = "The server does not accept the token of the credential helper: its audit log has the reason"
            raise errors.Unauthenticated(f"{error.message}. {words} (token_exchange.fail)", **error.details) from error

    def _exchange_alone(self) -> RenewedToken:
        with self._exchanging:
            return self._exchange()

    def _exchange(self) -> RenewedToken:
        """Exchange the secret for a token. If the server accepts a replacement for the secret, use the replacement at once."""
        *unconfirmed, current = self._secret.candidates
        # An earlier process may have crashed before it presented the next secret to the server.
        if answer := self._accepted_of(unconfirmed):
            return answer
        next_sha256 = self._secret.next_sha256()
        try:
            answer = self._ask(current, next_sha256)
        except _REJECTIONS as error:
            if current.startswith(one_job.TOKEN_PREFIX):
                raise errors.CredentialEnded(error.message) from error
            if answer := self._accepted_of(self._secret.earlier):
                return answer
            if isinstance(error, errors.Unauthenticated) and self._secret.is_worker_token:
                raise errors.Unauthenticated(f"{error.message}. {_HOW_TO_REGISTER_AGAIN}", **error.details) from error
            raise
        if answer.is_next_secret_accepted:
            return self._ask(self._secret.candidates[0])
        if next_sha256:
            self._secret.declined()
        return answer

    def _accepted_of(self, secrets: list[str]) -> RenewedToken | None:
        """Present these secrets one after the other. Returns None if the server accepts none of them."""
        for secret in secrets:
            with contextlib.suppress(*_REJECTIONS):
                return self._ask(secret)
        return None

    def _ask(self, secret: str, next_sha256: str = "") -> RenewedToken:
        form = {"grant_type": "client_credentials", "client_id": self._client_id, "client_secret": secret}
        if next_sha256:
            form["next_secret_sha256"] = next_sha256
        answer = self.post(urlencode(form))
        self._secret.accepted(secret)
        return answer

    def post(self, form: str) -> RenewedToken:
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=form,
                headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
                timeout=_REQUEST_SECONDS,
                retries=False,  # this also disables redirects, so that the secret is sent to no other server
            )
        except (HTTPError, OSError) as error:
            raise Unreachable(f"{self._url} cannot be reached: {error}") from error
        if response.status != 200:
            raise self._refusal(response)
        try:
            return msgspec.json.decode(response.data, type=RenewedToken)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise problems.foreign(response.status, response.headers, f"POST {self._url}") from error

    def _refusal(self, response: BaseHTTPResponse) -> TerracrewError:
        """Return the error that our server sent, as problem+json or as the JSON of RFC 6749 with one of Terracrew's codes."""
        if error := problems.own(response.headers, response.data):
            return error
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            refusal = msgspec.json.decode(response.data, type=_Refusal)
            if kind := errors.tree().get(refusal.code):
                return kind(refusal.error_description, **problems.retry_after(response.headers))
        return problems.foreign(response.status, response.headers, f"POST {self._url}")
