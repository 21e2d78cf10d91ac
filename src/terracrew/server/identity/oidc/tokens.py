"""Access tokens of machines: exchanges `client_credentials` for a signed token that is valid for fifteen minutes, or until the
secret is revoked.

A client id is `<organization>:<client>`. The client is a service account's id or path, or a runner's id with its worker token or
a once token; a shared runner belongs to no organization and has no prefix.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

from terracrew.api.runners import AlertKind
from terracrew.errors import CredentialEnded, RateLimited, Removed, TerracrewError, Unauthenticated
from terracrew.server.addresses import limit_key
from terracrew.server.audit import service as audit
from terracrew.server.audit.failures import Failures
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.identity import limits
from terracrew.server.identity.access import credential_store
from terracrew.server.identity.access import store as access_store
from terracrew.server.identity.federation import store as trust_store
from terracrew.server.identity.keys.signing import GENERIC, SigningKeys
from terracrew.server.identity.limits import ExchangeQueue, Limits
from terracrew.server.principals.model import AUDIENCE, Principal
from terracrew.server.runners.alerts import raising
from terracrew.server.runners.alerts.raising import AlertedRunner
from terracrew.server.runners.alerts.store import Occurrence
from terracrew.server.runners.once_tokens import store as once_store
from terracrew.server.runners.once_tokens import store as once_tokens
from terracrew.server.secrets import credentials
from terracrew.server.tree.groups import reads as groups
from terracrew.server.tree.groups import tree_path

LIFETIME_SECONDS = 900
KIND = "at+jwt"  # RFC 9068
WORKER_TOKEN_SECONDS = 90 * 24 * 3600.0
EXTENSION_SECONDS = 24 * 3600.0
"""The end of a token that is in use is moved once a day, so that most exchanges need no write."""
USED_AT_SECONDS = 600.0
"""`last_used_at` is exact only to ten minutes, so that most uses need no write."""
CACHE_SECONDS = 5.0
"""A wake-up announces each revocation. If the wake-up is lost, the revocation takes effect after this time."""
_MAX_CACHED_TOKENS = 10_000
EXPIRED = "this worker token has expired: nobody used or replaced it for too long"


class AccessToken(msgspec.Struct, frozen=True):
    """The answer of RFC 6749."""

    access_token: str
    expires_in: int = LIFETIME_SECONDS
    token_type: str = "Bearer"  # noqa: S105 (a word of the standard)
    is_next_secret_accepted: bool = False
    """Whether the worker token whose hash was sent may be used from now on, instead of the one that was sent."""

    def __repr__(self) -> str:
        return "AccessToken(…)"


class _Claims(msgspec.Struct, frozen=True):
    sub: str
    aud: Literal["terracrew"]
    org: str | None
    kind: Literal["service_account", "runner"]
    sid: str
    exp: float


class AccessTokens:
    def __init__(
        self,
        db: Database,
        signing: SigningKeys,
        counted: Limits,
        failures: Failures,
        issuer: str,
        worker_token_seconds: float = WORKER_TOKEN_SECONDS,
    ) -> None:
        self._db = db
        self.signing = signing
        self._limits, self._failures = counted, failures
        self._issuer = issuer
        self.worker_token_seconds = worker_token_seconds
        """After how long the worker token of a runner ends, unless the runner replaces or uses it."""
        self.turns = ExchangeQueue()
        self._worker_tokens = WorkerTokenReads(db)
        self._live: dict[_Claims, tuple[Principal, float]] = {}
        self._generation = 0
        self.on_forget: list[Callable[[str], None]] = []
        """Called with the id of a service account or runner whose credentials have changed; empty for all of them."""

    async def exchange(self, client_id: str, client_secret: str, address: str, next_sha256: str = "") -> AccessToken:
        """Exchange a secret for a token. The right secret is accepted regardless of how many wrong ones were counted.

        `next_sha256` is the hash of a worker token that is to follow this one; the first exchange of that one ends this one.
        """
        async with self.turns.taken():
            return await self._exchange(client_id, client_secret, address, next_sha256)

    async def _exchange(self, client_id: str, client_secret: str, address: str, next_sha256: str) -> AccessToken:
        sha256 = credentials.digest(client_secret)
        runner, now = await self._worker_tokens.by_digest(sha256)
        if runner is not None and client_id == _client_id(runner):
            client = _principal("runner", runner, _worker_sid(runner))
        else:
            client = await self._db.read(lambda tx: _client(tx, client_id, sha256, runner))
        if client is None:
            if await self._db.read(lambda tx: credential_store.is_removed(tx, sha256)):
                raise Removed("this runner has been removed. To use this machine again, register a runner")
            raise await self._refused(client_id, sha256, address)
        if client.kind == "service_account":
            await self._note_use(client.credential_id or "")
        is_next_accepted = runner is not None and await self._rotate(client, runner, now, next_sha256, address)
        token = await self.sign(client.kind, client.id, client.organization_id, client.credential_id or "")
        return AccessToken(token, LIFETIME_SECONDS, is_next_secret_accepted=is_next_accepted)

    async def sign(self, kind: str, subject: str, organization_id: str | None, credential_id: str) -> str:
        """Make an access token. It is valid for as long as the credential that it names."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self._issuer,
            "sub": subject,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
            "org": organization_id,
            "kind": kind,
            "sid": credential_id,
        }
        return await self.signing.sign(claims, KIND)

    async def _rotate(self, runner: Principal, row: Row, now: float, next_sha256: str, address: str) -> bool:
        """End the runner's old token if this is its next one. Returns whether `next_sha256` was accepted to follow this one."""
        sha256 = row["worker_token_sha256"]
        if row["is_next"]:

            async def replace(tx: Tx) -> None:
                if await credential_store.replace_worker_token(tx, sha256, tx.now + self.worker_token_seconds):
                    who = msgspec.structs.replace(runner, address=address)
                    await audit.record(tx, who, "runner.token_rotate", "runner", runner.id)

            await self._db.write(replace)
        elif self._is_extended(row, now):
            await self._db.write(
                lambda tx: credential_store.extend_worker_token(tx, sha256, tx.now + self.worker_token_seconds)
            )
        if not next_sha256 or next_sha256 == sha256:
            return False
        return await self._db.write(lambda tx: credential_store.offer_worker_token(tx, sha256, next_sha256))

    def _is_extended(self, runner: Row, now: float) -> bool:
        """Return whether the use of a token moves its end, unless the runner replaces it by itself."""
        if runner["organization_id"] is None:
            return False
        return (runner["worker_token_expires_at"] or 0.0) < now + self.worker_token_seconds - EXTENSION_SECONDS

    async def _refused(self, client_id: str, sha256: str, address: str) -> TerracrewError:
        """Return the error for a secret that is not valid. The holder of an earlier one raises an alert, or learns that it expired."""
        error = await self._failed(client_id, address)
        if isinstance(error, RateLimited):
            return error
        once = await self._db.read(lambda tx: once_store.by_secret(tx, sha256))
        if once is not None and once.status not in once_store.VALID:
            return CredentialEnded(once_tokens.ENDED[once.status])
        expired = await self._db.read(lambda tx: credential_store.runner_by_expired_token(tx, sha256))
        if expired is not None:
            return Unauthenticated(EXPIRED)
        ended = await self._db.read(lambda tx: credential_store.runner_by_ended_token(tx, sha256))
        if ended is not None:
            await self._db.write(lambda tx: _alert(tx, ended, address))
        return error

    async def _failed(self, client_id: str, address: str) -> TerracrewError:
        """Count a failed exchange, and return the error to answer with."""
        client = client_id.rpartition(":")[2]
        kind, organization_id = await self._db.read(lambda tx: credential_store.client(tx, client))
        return self.failed(client_id, address, kind, client if kind else "", organization_id)

    def failed(
        self,
        client_id: str,
        address: str,
        target_kind: str,
        target: str,
        organization_id: str | None,
        reason: str = "",
    ) -> TerracrewError:
        """Count a failed exchange for a client that exists, or for an empty target, and return the error to answer with."""
        network = limit_key(address)
        error: TerracrewError = Unauthenticated(GENERIC)
        try:
            self._limits.attempt(
                limits.GUESSES.of(f"token:{network}:{client_id[:200]}"), limits.ADDRESS.of(f"token:{network}")
            )
        except RateLimited as limited:
            error = limited
        is_limited = isinstance(error, RateLimited)
        self._failures.note(
            "token_exchange.fail", address, target_kind, target, organization_id, is_limited=is_limited, reason=reason
        )
        return error

    async def principal(self, token: str) -> Principal:
        """Return the principal of a token, if we signed it, it has not expired, and its secret was not revoked."""
        claims = await self._checked(token)
        cached = self._live.get(claims)
        if cached is not None and time.monotonic() < cached[1]:
            return cached[0]
        generation = self._generation
        row = await self._secret(claims.kind, claims.sub, claims.sid)
        if row is None or row["organization_id"] != claims.org:
            self._live.pop(claims, None)
            raise Unauthenticated(GENERIC)
        principal = _principal(claims.kind, row, claims.sid, claims.exp)
        if generation == self._generation:  # otherwise something was revoked during the read
            if len(self._live) >= _MAX_CACHED_TOKENS:
                self._live.clear()
            self._live[claims] = principal, time.monotonic() + CACHE_SECONDS
        return principal

    async def is_live(self, principal: Principal) -> bool:
        """Return whether the secret behind a connection that has been open for a while is still valid."""
        return await self._secret(principal.kind, principal.id, principal.credential_id or "") is not None

    async def _secret(self, kind: str, principal_id: str, credential_id: str) -> Row | None:
        """Return the row of the service account or runner, if this secret of it is still valid."""
        if kind == "service_account" or credential_id.startswith("onc_"):
            return await self._db.read(lambda tx: _secret(tx, kind, principal_id, credential_id))
        row = await self._worker_tokens.of_runner(principal_id)
        return None if row is None or _worker_sid(row) != credential_id else row

    def forget(self, principal_id: str) -> None:
        """Forget what is cached about this service account, runner or once token, so that it is read again."""
        self._generation += 1
        for listener in self.on_forget:
            listener(principal_id)
        for claims in [claims for claims in self._live if principal_id in (claims.sub, claims.sid)]:
            del self._live[claims]

    async def forget_revoked(self) -> None:
        """Listen for revocations, on this and on other servers, for as long as the server runs."""
        with self._db.listen("access") as wakeups:
            async for _, principal_id in wakeups:
                self.forget(principal_id)

    async def _checked(self, token: str) -> _Claims:
        claims = await self.signing.verify(token, KIND)
        needed = JWTClaimsRegistry(
            leeway=5,  # the clocks of several servers may differ
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": AUDIENCE},
            exp={"essential": True},
            iat={"essential": True},
        )
        try:
            needed.validate(claims)
            return msgspec.convert(claims, _Claims)
        except (JoseError, msgspec.ValidationError):
            raise Unauthenticated(GENERIC) from None

    async def _note_use(self, secret_id: str) -> None:
        if await self._db.read(lambda tx: access_store.is_use_noted(tx, secret_id, tx.now - USED_AT_SECONDS)):
            return
        await self._db.write(lambda tx: access_store.note_use(tx, secret_id))


async def _alert(tx: Tx, runner: Row, address: str) -> None:
    """Raise an alert: somebody has a copy of a token that the runner replaced."""
    alerted = AlertedRunner(runner["id"], runner["path"], runner["organization_id"])
    what = Occurrence(AlertKind.ENDED_TOKEN, "", address, former_at=runner["ended_at"])
    who = Principal("anonymous", "", "somebody with an earlier token", runner["organization_id"], address=address)
    await raising.occurred(tx, who, alerted, what, {"path": runner["path"]})


def _client_id(runner: Row) -> str:
    """Return the client id that a runner is registered with; it may also write the name of its organization in it."""
    return ":".join(filter(None, (runner["organization_id"], runner["id"])))


async def _client(tx: Tx, client_id: str, secret_sha256: str, runner: Row | None) -> Principal | None:
    """Return the owner of a secret; `runner` has it as its worker token. A client id without an organization means the owner's."""
    prefix, _, client = client_id.rpartition(":")
    # Names contain no control characters, and a database may refuse to search for them.
    organization_id = await groups.organization_id(tx, prefix) if prefix and prefix.isprintable() else None
    if prefix and organization_id is None:
        return None
    # The secret is looked up, and its owner is compared with the client: without the secret, no name can be probed.
    found, names = await _by_secret(tx, secret_sha256, runner)
    if found is None or client not in names or (prefix and found.organization_id != organization_id):
        return None
    return found


async def _by_secret(tx: Tx, sha256: str, runner: Row | None) -> tuple[Principal | None, tuple[str, ...]]:
    """Return the owner of a secret, and the names by which it may introduce itself."""
    account = await access_store.account_by_secret(tx, sha256)
    if account is not None:
        path = tree_path.join(account["group"], account["name"])
        return _principal("service_account", account, account["secret_id"]), (account["id"], path)
    if runner is None:
        return await _by_once_token(tx, sha256)
    return _principal("runner", runner, _worker_sid(runner)), (runner["id"],)


async def _by_once_token(tx: Tx, sha256: str) -> tuple[Principal | None, tuple[str, ...]]:
    """Return the runner of a once token that waits for its job, or whose job has not ended."""
    found = await once_store.by_secret(tx, sha256)
    if found is None or found.status not in once_store.VALID:
        return None, ()
    return _principal("runner", msgspec.structs.asdict(found), found.token_id), (found.id,)


async def _secret(tx: Tx, kind: str, principal_id: str, credential_id: str) -> Row | None:
    """Return the row of a service account, or of a runner with a once token."""
    if kind == "service_account" and credential_id.startswith("trp_"):
        return await trust_store.account_of_policy(tx, principal_id, credential_id)
    if kind == "service_account":
        return await access_store.account_of_secret(tx, principal_id, credential_id)
    found = await once_store.find(tx, credential_id)
    is_valid = found is not None and found.id == principal_id and found.status in once_store.VALID
    return msgspec.structs.asdict(found) if found is not None and is_valid else None


def _principal(
    kind: Literal["service_account", "runner"], row: Row, credential_id: str, expires_at: float | None = None
) -> Principal:
    return Principal(
        kind,
        row["id"],
        row["name"],
        row["organization_id"],
        credential_id=credential_id,
        expires_at=expires_at,
        credential="secret",
        credential_ends_at=row["ends_at"] if kind == "service_account" else None,
    )


def _worker_sid(runner: Row) -> str:
    # A new worker token changes this id, which ends the access tokens of the old one. The id does not reveal the stored hash.
    return credentials.digest(f"sid:{runner['worker_token_sha256']}")[:24]


class WorkerTokenReads:
    def __init__(self, db: Database) -> None:
        self.by_digest = db.grouped_reads(_by_digests)
        """Takes the digest of a token, and returns the runner that may use it now, and the time of the read."""
        self.of_runner = db.grouped_reads(_of_runners)
        """Takes the id of a runner, and returns the runner if its token is valid now."""


async def _by_digests(tx: Tx, digests: list[str]) -> Sequence[tuple[Row | None, float]]:
    found = await credential_store.runners_by_worker_tokens(tx, digests)
    return [(found.get(each), tx.now) for each in digests]


async def _of_runners(tx: Tx, runner_ids: list[str]) -> Sequence[Row | None]:
    found = await credential_store.runners_with_worker_tokens(tx, runner_ids)
    return [found.get(each) for each in runner_ids]
