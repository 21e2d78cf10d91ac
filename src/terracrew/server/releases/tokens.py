"""Makes, lists and revokes release tokens. Only administrators of the server may; a token itself can do nothing here."""

from datetime import UTC, datetime

from terracrew import ids
from terracrew.api.pages import Page
from terracrew.api.releases import ReleaseToken
from terracrew.errors import Conflict, Invalid
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import SERVER, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import store
from terracrew.server.secrets import credentials
from terracrew.server.secrets.credentials import Secret

DEFAULT_DAYS = 90
MAX_TOKENS = 100
USED_AT_SECONDS = 600.0
"""`last_used_at` is exact only to ten minutes, so that most uses need no write."""


async def create(db: Database, who: Principal, name: str, days: int | None = None) -> tuple[ReleaseToken, Secret]:
    """Make a token that publishes releases until it expires: after so many days, 90 by default."""
    if not name.isprintable() or not name.strip():
        raise Invalid.in_field("name", "there are characters that cannot be printed in it")
    secret = credentials.new("tcr")

    async def work(tx: Tx) -> ReleaseToken:
        await authorize.require(tx, who, Verb.SERVER_ADMIN, SERVER)
        if await store.count(tx) >= MAX_TOKENS:
            raise Conflict(f"there are {MAX_TOKENS} release tokens: revoke those that are no longer used")
        ends_at = delegation.default_expiry(who, tx.now, DEFAULT_DAYS)
        if days is not None:
            ends_at = delegation.expiry(who, tx.now, days) or ends_at
        made = ReleaseToken(ids.new("rtk"), name, who.id, who.name, tx.moment, datetime.fromtimestamp(ends_at, UTC))
        await store.insert_token(tx, made, secret.sha256)
        await audit.record(tx, who, "release_token.create", "release_token", made.id, {"name": name})
        return made

    try:
        return await db.write(work), secret
    except Conflict as error:
        if error.details.get("constraint") != "release_tokens_name":
            raise
        raise Conflict(f"there is a release token named {name!r} already") from None


async def listing(tx: Tx, who: Principal, after: str | None, limit: int) -> Page[ReleaseToken]:
    await authorize.require(tx, who, Verb.SERVER_ADMIN, SERVER)
    return page(await store.page(tx, start(after), limit + 1), limit)


async def revoke(tx: Tx, who: Principal, token_id: str) -> None:
    """Revoke a token. Requests with it are refused from now on."""
    await authorize.require(tx, who, Verb.SERVER_ADMIN, SERVER)
    name = await store.delete(tx, token_id)
    await audit.record(tx, who, "release_token.revoke", "release_token", token_id, {"name": name})


async def principal(db: Database, token: str) -> Principal | None:
    """Return the publisher that a token stands for, and note that it was used; None if it is not valid."""
    sha256 = credentials.digest(token)

    async def read(tx: Tx) -> tuple[ReleaseToken | None, float]:
        return await store.valid(tx, sha256), tx.now

    found, now = await db.read(read)
    if found is None:
        return None
    if found.last_used_at is None or found.last_used_at.timestamp() < now - USED_AT_SECONDS:
        await db.write(lambda tx: store.note_use(tx, found.id))
    return Principal(
        "publisher",
        found.id,
        found.name,
        None,
        credential_id=found.id,
        credential="token",
        credential_ends_at=found.expires_at.timestamp(),
    )
