"""The API of GitHub, authenticated by a token or as an application."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from terracrew.errors import Invalid
from terracrew.forges import values
from terracrew.forges.contract import ForgeRefused, Send
from terracrew.forges.github import jwt
from terracrew.forges.rest import Rest

PUBLIC = "https://github.com"
_HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
JWT_SECONDS = 540
SKEW_SECONDS = 60
"""How much the clock of the forge may be behind."""
SPARE_SECONDS = 300
"""A token of an installation is used no longer than this time before its end."""


class InstallationAnswer(msgspec.Struct):
    id: int
    permissions: dict[str, str] = {}
    events: list[str] = []


class InstallationToken(msgspec.Struct):
    token: str
    expires_at: datetime


def api_url(base_url: str) -> str:
    """Return the address of the API that belongs to the address of the pages."""
    return "https://api.github.com" if base_url == PUBLIC else f"{base_url}/api/v3"


class TokenAccess:
    """Uses a token that people have made."""

    def __init__(self, send: Send, base_url: str, token: str) -> None:
        self._token = token
        remedy = ". Make a new token and set it with `terracrew forge update NAME --token-file FILE`"
        self.rest = Rest(send, api_url(base_url), {**_HEADERS, "Authorization": f"Bearer {token}"}, remedy=remedy)

    async def of(self, repository: str) -> Rest:  # noqa: ARG002 (an application needs the name)
        return self.rest

    async def git_token(self, repository: str) -> str:  # noqa: ARG002
        return self._token


class AppAccess:
    """Uses tokens of installations of an application. Each is valid for an hour, and is got again before that."""

    def __init__(
        self, send: Send, base_url: str, app_id: str, private_key: str, clock: Callable[[], float] = time.time
    ) -> None:
        self.app_id = app_id
        self._clock = clock
        self._key = load_key(private_key)
        remedy = (
            ". Its private key may have been deleted on the page of the application: make a new one there and set it with "
            "`terracrew forge update NAME --private-key-file FILE`"
        )
        self._rest = Rest(send, api_url(base_url), _HEADERS, clock=clock, remedy=remedy)
        self._installations: dict[str, int] = {}
        self._tokens: dict[int, InstallationToken] = {}

    @property
    def rest(self) -> Rest:
        """Asks as the application itself, which is about the application only."""
        now = int(self._clock())
        claims = {"iat": now - SKEW_SECONDS, "exp": now + JWT_SECONDS, "iss": self.app_id}
        return self._rest.with_headers({"Authorization": f"Bearer {jwt.signed(self._key, claims)}"})

    async def of(self, repository: str) -> Rest:
        """Ask with the permissions that the application has in the account of a repository."""
        installation = await self.installation(repository)
        kept = self._tokens.get(installation)
        end = datetime.fromtimestamp(self._clock(), UTC) + timedelta(seconds=SPARE_SECONDS)
        if kept is None or kept.expires_at < end:
            path = f"/app/installations/{installation}/access_tokens"
            try:
                kept = await self.rest.send(InstallationToken, "POST", path, {})
            except ForgeRefused:
                self._installations.pop(_owner(repository), None)  # it may have been installed anew
                raise
            self._tokens[installation] = kept
        return self._rest.with_headers({"Authorization": f"Bearer {kept.token}"})

    async def git_token(self, repository: str) -> str:
        """Return a token that can read this repository, and do nothing else."""
        installation = await self.installation(repository)
        asked = {"repositories": [repository.rpartition("/")[2]], "permissions": {"contents": "read"}}
        path = f"/app/installations/{installation}/access_tokens"
        return (await self.rest.send(InstallationToken, "POST", path, asked)).token

    async def installation(self, repository: str) -> int:
        """Return the installation in the account of a repository."""
        owner = _owner(repository)
        if owner not in self._installations:
            try:
                path = f"/repos/{values.path(repository)}/installation"
                self._installations[owner] = (await self.rest.get(InstallationAnswer, path)).id
            except ForgeRefused as error:
                if error.answer_status != 404:
                    raise
                message = f"the application is not installed for {repository}: install it there, on its page on GitHub"
                raise ForgeRefused(message, 404) from None
        return self._installations[owner]


def load_key(pem: str) -> RSAPrivateKey:
    """Read the key of an application. Raises Invalid if it is none; the message does not repeat it."""
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise Invalid.in_field(
            "private_key", "this is not an RSA key as PEM, which begins with -----BEGIN RSA PRIVATE KEY-----"
        )
    return key


def _owner(repository: str) -> str:
    return repository.partition("/")[0].lower()
