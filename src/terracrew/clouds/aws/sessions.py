"""The session of an identity: credentials of its role for fifteen minutes, which exist only in the memory of this process."""

import asyncio
import importlib
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from terracrew.clouds.aws.errors import SignInRefused, action_name, translated
from terracrew.clouds.contract import CloudSilent, SignToken
from terracrew.clouds.model import AwsAccount, CloudIdentity
from terracrew.errors import TerracrewError

SESSION_SECONDS = 900
RENEW_BEFORE_SECONDS = 180
"""A session is renewed when it is valid for less than this."""
LAST_USE_SECONDS = 20
"""A session is still used when it is valid for more than this and cannot be renewed, because nobody answers."""
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 30.0
_MAX_CONNECTIONS = 8
_MAX_SESSION_NAME_CHARACTERS = 64
_NOT_IN_A_SESSION_NAME = re.compile(r"[^\w+=,.@-]", re.ASCII)


class Keys:
    """The credentials of a session, as botocore asks for them. They are replaced all at once, and nothing prints them."""

    __slots__ = ("_ends_at", "_frozen")
    method = "terracrew"
    account_id = None

    def __init__(self) -> None:
        self._frozen: Any = None
        self._ends_at = 0.0

    def replace(self, credentials: dict[str, Any], asked_at: float) -> None:
        """Use new credentials. They end by the clock that counts from the request, because the time of day may be wrong here."""
        library: Any = importlib.import_module("botocore.credentials")
        self._frozen = library.ReadOnlyCredentials(
            credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"], None
        )
        self._ends_at = asked_at + SESSION_SECONDS

    def forget(self) -> None:
        self._frozen, self._ends_at = None, 0.0

    def are_valid_for(self, seconds: float) -> bool:
        return self._frozen is not None and self._ends_at - time.monotonic() > seconds

    def get_frozen_credentials(self) -> Any:
        return self._frozen

    def get_deferred_property(self, property_name: str) -> Callable[[], Any]:
        """Return a function that returns one property. botocore asks for the id of the account in this way."""
        return lambda: getattr(self._frozen, property_name, None)

    @property
    def access_key(self) -> str:
        return self._frozen.access_key

    @property
    def secret_key(self) -> str:
        return self._frozen.secret_key

    @property
    def token(self) -> str:
        return self._frozen.token

    def __repr__(self) -> str:
        return "<Keys>"


class Clients:
    """The clients of services, made once for each. Called in threads."""

    def __init__(self, region: str, keys: Keys) -> None:
        self._region, self._keys = region, keys
        self._lock = threading.Lock()
        self._made: dict[str, Any] = {}
        self._session: Any = None

    def get(self, service: str) -> Any:
        with self._lock:
            if service not in self._made:
                self._session = self._session or _library_session(self._keys)
                self._made[service] = self._session.create_client(
                    service, region_name=self._region, config=library_limits()
                )
            return self._made[service]

    def sign_in_client(self, *, is_signed: bool) -> Any:
        """Return a client of STS with the credentials of this machine, or with none."""
        name = "sign-in" if is_signed else "web identity"
        with self._lock:
            if name not in self._made:
                self._made[name] = _library_session(None).create_client(
                    "sts", region_name=self._region, config=library_limits(is_signed=is_signed)
                )
            return self._made[name]

    def forget(self) -> None:
        with self._lock:
            self._made.clear()
            self._session = None


class RoleSession:
    """Signs in as the role of an identity, and again before the session ends."""

    def __init__(
        self,
        identity: CloudIdentity,
        sign_token: SignToken,
        in_thread: Callable[..., Awaitable[Any]],
        on_request: Callable[[str], None],
    ) -> None:
        if not isinstance(identity.cloud, AwsAccount):
            raise TypeError(f"{identity.name} is no identity of AWS")
        self._identity, self._account, self._sign_token = identity, identity.cloud, sign_token
        self._in_thread, self._on_request = in_thread, on_request
        self.keys = Keys()
        self.clients = Clients(self._account.region, self.keys)
        self._renewal = asyncio.Lock()

    async def require(self, *, is_new: bool = False) -> None:
        """Sign in if there is no session, or one that is about to end, or in any case. Raises SignInRefused or CloudSilent."""
        async with self._renewal:
            if is_new or not self.keys.are_valid_for(RENEW_BEFORE_SECONDS):
                try:
                    await self._renew()
                except CloudSilent:
                    if is_new or not self.keys.are_valid_for(LAST_USE_SECONDS):
                        raise

    async def _renew(self) -> None:
        asked_at = time.monotonic()
        token = await self.new_token() if self._account.way == "web_identity" else ""
        self.keys.replace(await self.assume(token=token, external_id=self._account.external_id), asked_at)

    async def new_token(self, *, is_probe: bool = False) -> str:
        try:
            return await (self._sign_token(True) if is_probe else self._sign_token())
        except TerracrewError as error:
            words = f"the server signs no token for this identity: {error.message}"
            raise (CloudSilent if error.is_transient else SignInRefused)(words) from None

    async def assume(self, *, token: str, external_id: str) -> dict[str, Any]:
        """Return credentials of the role, as STS answers. `token` counts with `web_identity`, and the external id otherwise."""
        arguments: dict[str, Any] = {
            "RoleArn": self._account.role_arn,
            "RoleSessionName": session_name(self._identity.name),
            "DurationSeconds": SESSION_SECONDS,
        }
        operation = "assume_role"
        if self._account.way == "web_identity":
            operation = "assume_role_with_web_identity"
            arguments["WebIdentityToken"] = token
        elif external_id:
            arguments["ExternalId"] = external_id
        self._on_request(action_name("sts", operation))
        return await self._in_thread(self._assume, operation, arguments)

    def forget(self) -> None:
        """Forget the session, for one that AWS does not accept any more, and at the end."""
        self.keys.forget()

    def close(self) -> None:
        self.keys.forget()
        self.clients.forget()

    def _assume(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            client = self.clients.sign_in_client(is_signed=operation == "assume_role")
            return getattr(client, operation)(**arguments)["Credentials"]
        except Exception as error:  # the library has dozens of classes for a call that failed
            raise translated(error, "sts", operation) from None

    def __repr__(self) -> str:
        return f"<RoleSession of {self._identity.name}>"


def session_name(identity_name: str) -> str:
    """Return the name that the account's own logs show for what we do there."""
    return ("terracrew-" + _NOT_IN_A_SESSION_NAME.sub("-", identity_name))[:_MAX_SESSION_NAME_CHARACTERS]


def library_limits(*, is_signed: bool = True) -> Any:
    """Return limits of time. A call is repeated by `api.py` and not by the library, so that requests can be counted."""
    config: Any = importlib.import_module("botocore.config")
    botocore: Any = importlib.import_module("botocore")
    unsigned = {} if is_signed else {"signature_version": botocore.UNSIGNED}
    return config.Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=_MAX_CONNECTIONS,
        **unsigned,
    )


def _library_session(keys: Keys | None) -> Any:
    """Return a session of botocore with these credentials, or with those that this machine has."""
    # At its debug level botocore logs requests and answers as they are, with tokens and secret keys.
    logging.getLogger("botocore").setLevel(logging.INFO)
    library: Any = importlib.import_module("botocore.session")
    session = library.Session()
    if keys is not None:
        session.register_component("credential_provider", _OneCredential(keys))
    return session


class _OneCredential:
    """Where a session of botocore finds its credentials: here, and nowhere else."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def load_credentials(self) -> Keys:
        return self._keys
