"""Finds the principal of a bearer token of any kind. All invalid tokens get the same answer."""

import msgspec

from terracrew.api.access import User
from terracrew.errors import Unauthenticated
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.identity.access import credential_store
from terracrew.server.identity.access import store as access_store
from terracrew.server.identity.context import Identity
from terracrew.server.identity.federation import store as trust_store
from terracrew.server.identity.keys.signing import GENERIC
from terracrew.server.identity.oidc.tokens import USED_AT_SECONDS
from terracrew.server.identity.people import sessions, store
from terracrew.server.identity.people.sessions import person
from terracrew.server.principals.model import Principal
from terracrew.server.releases import tokens
from terracrew.server.secrets import credentials


async def principal_from_bearer(identity: Identity, token: str) -> Principal:
    """Return the principal of this token.

    The hub credential of an attempt is accepted even after the attempt has ended, and the hub decides what it may still
    deliver. The API credential of an attempt ends with the attempt.
    """
    kind, separator, _ = token.partition("_")
    principal: Principal | None = None
    if "." in token:
        return await identity.tokens.principal(token)
    if separator and kind == "tcu":
        principal = await _user(identity, credentials.digest(token))
    elif separator and kind == "tcr":
        principal = await tokens.principal(identity.db, token)
    elif separator and kind in ("tch", "tcj"):
        principal = await _attempt(identity, kind, credentials.digest(token))
    if principal is None:
        raise Unauthenticated(GENERIC)
    return principal


def is_secret(token: str) -> bool:
    """Return whether a token has the form of a service account's secret."""
    return token.strip().startswith("tcs_")


async def account_from_secret(identity: Identity, secret: str) -> Principal:
    """Return the service account of this secret, for the few addresses that accept the secret itself."""
    sha256 = credentials.digest(secret)
    found = await identity.db.read(lambda tx: _by_secret(tx, sha256))
    if found is None:
        raise Unauthenticated(GENERIC)
    row, is_noted = found
    if not is_noted:
        await identity.db.write(lambda tx: access_store.note_use(tx, row["secret_id"]))
    return Principal(
        "service_account",
        row["id"],
        row["name"],
        row["organization_id"],
        credential_id=row["secret_id"],
        credential="secret",
        credential_ends_at=row["ends_at"],
    )


async def _by_secret(tx: Tx, sha256: str) -> tuple[Row, bool] | None:
    row = await access_store.account_by_secret(tx, sha256)
    if row is None:
        return None
    return row, await access_store.is_use_noted(tx, row["secret_id"], tx.now - USED_AT_SECONDS)


async def is_credential_valid(tx: Tx, who: Principal) -> bool:
    """Return whether the token, session or secret of a person or a service account still lets them in."""
    credential_id = who.credential_id or ""
    if who.kind == "service_account" and credential_id.startswith("trp_"):
        return await trust_store.account_of_policy(tx, who.id, credential_id) is not None
    if who.kind == "service_account":
        return await access_store.account_of_secret(tx, who.id, credential_id) is not None
    if credential_id.startswith("ses_"):
        return await store.is_session_open(tx, who.id, credential_id, tx.now - sessions.IDLE_SECONDS)
    return await store.is_token_valid(tx, who.id, credential_id)


async def _user(identity: Identity, sha256: str) -> Principal | None:
    found = await identity.bearers.user(sha256)
    if found is None:
        return None
    row, now = found
    who = msgspec.structs.replace(
        person(row_to(User, row), row["credential_id"]),
        credential="local_token" if row["is_local"] else "token",
        credential_ends_at=row["ends_at"],
    )
    used = row["last_used_at"]
    if used is None or used < now - USED_AT_SECONDS:
        await identity.db.write(lambda tx: store.note_token_use(tx, who.credential_id or ""))
    return who


async def _attempt(identity: Identity, kind: str, sha256: str) -> Principal | None:
    if kind == "tch":
        found = await identity.bearers.attempt(sha256)
    else:
        found = await identity.db.read(lambda tx: credential_store.live_attempt_by_api_credential(tx, sha256))
    if found is None:
        return None
    role = "executor" if kind == "tch" else "engine"
    return Principal(
        role,
        f"{found.job_id}.{found.attempt}",
        f"attempt {found.attempt} of {found.job_id}",
        found.organization_id,
        attempt=found,
    )
