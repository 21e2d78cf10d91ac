"""Lists entries of the audit log for people: by who, what, where and when."""

from datetime import UTC, datetime

from terracrew.api.audit import AuditQuery, Entry
from terracrew.api.pages import Page
from terracrew.errors import Invalid
from terracrew.server.audit import reads, store
from terracrew.server.audit.reads import EntryFilter, EntryPage
from terracrew.server.db.seam import Tx
from terracrew.server.paging import cursor, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

MAX_TEXT_CHARACTERS = 200
_ACTOR_IDS = ("usr_", "sac_", "rnr_")


async def listing(tx: Tx, who: Principal, query: AuditQuery, after: str | None, limit: int) -> Page[Entry]:
    """Return entries, the newest first.

    A page may have fewer entries than asked for, or none, although there are more: only a page without `next` is the last one.
    """
    found = await reads.page(tx, await _filter(tx, who, query), start(after), limit)
    return Page(found.entries, cursor(found.last_id))


async def oldest_first(tx: Tx, who: Principal, query: AuditQuery, after: str, limit: int) -> EntryPage:
    """Return entries after an id, the oldest first. The right to read them is checked for every page."""
    return await reads.page(tx, await _filter(tx, who, query), after, limit, is_oldest_first=True)


async def check(tx: Tx, who: Principal, query: AuditQuery) -> None:
    """Check what is asked for and that the caller may read it, without reading any entry."""
    await _filter(tx, who, query)


async def _filter(tx: Tx, who: Principal, query: AuditQuery) -> EntryFilter:
    """Check what is asked for and that the caller may read it.

    The audit log of an organization is for its owners, and the part of it about a group or module for the owners of that.
    """
    _check_texts(query)
    organization_id = who.organization_id
    if query.path:
        is_module = await store.is_module(tx, organization_id or "", query.path)
        kind = authorize.module if is_module else authorize.group
        await authorize.require(tx, who, Verb.AUDIT_READ, kind(organization_id or "", query.path))
    else:
        is_module = False
        await authorize.require(tx, who, Verb.AUDIT_READ, authorize.organization(organization_id))
        if who.is_system_admin and not who.is_organization_chosen:
            organization_id = None
    is_id = query.actor is not None and (query.actor.startswith(_ACTOR_IDS) or query.actor == "system")
    return EntryFilter(
        organization_id,
        query.actor if is_id else None,
        None if is_id else query.actor,
        query.action,
        query.target,
        query.path or None,
        is_module,
        _seconds(query.since),
        _seconds(query.until),
        query.text,
    )


def _seconds(moment: datetime | None) -> float | None:
    """Return the seconds since 1970. A time without a time zone is in UTC."""
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _check_texts(query: AuditQuery) -> None:
    for name in ("actor", "action", "target", "path", "text"):
        value: str | None = getattr(query, name)
        if value is not None and not value.isprintable():
            raise Invalid(f"{name}: there are characters that cannot be printed in it")
        if name in ("text", "action") and value is not None and len(value) > MAX_TEXT_CHARACTERS:
            raise Invalid(f"{name}: at most {MAX_TEXT_CHARACTERS} characters are allowed")
