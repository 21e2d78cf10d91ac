"""Sessions of browsers: the cookie, how long it is valid, and the checks that keep other sites from using it."""

import hashlib
import hmac
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec
from litestar import Request
from litestar.datastructures import Cookie
from litestar.enums import RequestEncodingType

from terracrew.api.access import User
from terracrew.errors import Forbidden
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.identity.people import devices, store
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import credentials

COOKIE, DEVICE_COOKIE = "terracrew_session", "terracrew_device"
SECURE_PREFIX = "__Host-"
"""The prefix of a cookie's name over https: a browser accepts it from this host only, and sends it nowhere else."""
CSRF_HEADER, CSRF_FIELD = "X-CSRF-Token", "_csrf"
IDLE_SECONDS = 24 * 3600.0
SESSION_SECONDS = 14 * 24 * 3600.0
SEEN_AT_SECONDS = 60.0
"""The precision with which the last use is stored."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Session(msgspec.Struct, frozen=True):
    """A login in a browser. `token` goes into the cookie and nowhere else."""

    id: str
    user_id: str
    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"Session({self.id})"


async def start(tx: Tx, user: User, address: str | None = None, lifetime_seconds: float = SESSION_SECONDS) -> Session:
    secret = credentials.new("tcd")
    made = await store.insert_session(tx, user.id, secret.sha256, tx.now + lifetime_seconds, address)
    return Session(made.id, user.id, secret.text, made.expires_at)


async def principal(db: Database, token: str) -> Principal | None:
    """Return the principal of this cookie; None if the session has ended."""
    sha256 = credentials.digest(token)

    async def find(tx: Tx) -> tuple[Principal, bool] | None:
        row = await store.session_user(tx, sha256, tx.now - IDLE_SECONDS)
        if row is None:
            return None
        who = msgspec.structs.replace(person(row_to(User, row), row["credential_id"]), credential="session")
        if row["chosen_id"] is not None:
            who = msgspec.structs.replace(who, organization_id=row["chosen_id"], is_organization_chosen=True)
        return who, row["seen_at"] < tx.now - SEEN_AT_SECONDS

    found = await db.read(find)
    if found is None:
        return None
    who, is_stale = found
    if is_stale:
        await db.write(lambda tx: store.note_session(tx, who.credential_id or ""))
    return who


def person(user: User, credential_id: str | None, address: str | None = None) -> Principal:
    return Principal(
        "user",
        user.id,
        user.name,
        user.organization_id,
        user.is_system_admin,
        credential_id=credential_id,
        address=address,
    )


def is_secure(request: Request[Any, Any, Any], url: str) -> bool:
    """Return whether browsers use https to reach this server, according to its public URL or to a trusted proxy."""
    return url.startswith("https:") or request.scope["scheme"] == "https"


def cookie_name(name: str, *, secure: bool) -> str:
    return SECURE_PREFIX + name if secure else name


def cookie(session: Session, *, secure: bool) -> Cookie:
    """Return the session's cookie, for the answer to a login."""
    return _cookie(COOKIE, session.token, int(SESSION_SECONDS), secure=secure)


def device_cookie(value: str, *, secure: bool) -> Cookie:
    """Return the cookie that marks a known browser, for the answer to a login; see `devices`."""
    return _cookie(DEVICE_COOKIE, value, devices.LIFETIME_SECONDS, secure=secure)


def _cookie(name: str, value: str, max_age_seconds: int, *, secure: bool) -> Cookie:
    return Cookie(
        key=cookie_name(name, secure=secure),
        value=value,
        path="/",
        httponly=True,
        samesite="lax",
        secure=secure,
        max_age=max_age_seconds,
    )


def csrf_token(session_token: str, organization_id: str | None) -> str:
    """Return the token for the forms and htmx requests of the pages that this session shows of an organization.

    Only pages of this session know it, and it does not reveal the session's token. It names the organization, so that a form
    in an old tab cannot act in the organization that another tab has switched to.
    """
    shown = organization_id or ""
    signature = hmac.new(
        session_token.encode(errors="replace"), f"csrf {shown}".encode(errors="replace"), hashlib.sha256
    )
    return f"{shown}.{signature.hexdigest()}"


def is_csrf_token(given: str, session_token: str) -> bool:
    """Return whether a page of this session, of whatever organization, has this token."""
    expected = csrf_token(session_token, given.rpartition(".")[0])
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))


def organization_of(token: str) -> str:
    """Return the id of the organization that the page with this token shows; empty if it shows none."""
    return token.rpartition(".")[0]


async def check_csrf(request: Request[Any, Any, Any], session_token: str) -> str:
    """Refuse a change that carries the cookie but not a token that only our own pages have. Return that token."""
    given = request.headers.get(CSRF_HEADER)
    if given is None and request.content_type[0] == RequestEncodingType.URL_ENCODED:
        given = (await request.form()).get(CSRF_FIELD)
    if not isinstance(given, str) or not is_csrf_token(given, session_token):
        raise Forbidden("this form is from another session or another site: reload the page and try again")
    return given


def check_origin(request: Request[Any, Any, Any], url: str) -> None:
    """Refuse a change that another site asked for, according to the browser's headers."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        is_foreign = site != "same-origin"
    else:
        origin = request.headers.get("Origin")
        is_foreign = origin is not None and not _is_own(origin, url, request.headers.get("Host", ""))
    if is_foreign:
        raise Forbidden("this request comes from another site")


def _is_own(origin: str, url: str, host: str) -> bool:
    own = urlsplit(url)
    return origin in (f"{own.scheme}://{own.netloc}", f"{own.scheme}://{host}")
