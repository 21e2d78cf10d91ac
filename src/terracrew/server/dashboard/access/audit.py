"""The audit log page: who changed what, and when, with filters, links to what was changed, and an export."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from litestar import Response, get
from litestar.params import FromQuery

from terracrew.api.audit import AuditQuery, Entry
from terracrew.errors import Invalid
from terracrew.server.audit.listing import listing
from terracrew.server.dashboard import forms, render, words
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.wording import audit_words

HERE = "/dashboard/audit"
EXPORT = "/api/v1/audit/export"
PAGE_ROWS = 50
MAX_DETAIL_CHARACTERS = 120
"""How much of a value of the details a row shows."""
PAGES = {
    "job": "jobs",
    "module": "modules",
    "group": "groups",
    "runner": "runners",
    "user": "users",
    "service_account": "service-accounts",
}
"""The pages of what an entry can be about, by its kind."""
_CHANGES = (".update", ".change")
"""How the actions end whose sentence says what was changed, but not to what."""


class AuditFilters(msgspec.Struct, frozen=True):
    """The filters as they were typed."""

    actor: str = ""
    action: str = ""
    path: str = ""
    target: str = ""
    text: str = ""
    since: str = ""
    until: str = ""


class EntryRow(msgspec.Struct, frozen=True):
    entry: Entry
    actor_link: str
    target_link: str
    target: str
    """What the entry is about, in words."""
    sentence: str
    """What was done, in words."""
    details: list[tuple[str, str]]
    """The new values of what was changed."""


class AuditPage(msgspec.Struct, frozen=True):
    rows: list[EntryRow]
    filters: AuditFilters
    next: str | None
    exports: dict[str, str]
    """The addresses of the export of everything that matches, by format."""


async def read_page(tx: Tx, who: Principal, filters: AuditFilters, after: str | None) -> AuditPage:
    query = _query(filters)
    found = await listing(tx, who, query, after, PAGE_ROWS)
    asked = {name: value for name, value in msgspec.to_builtins(query).items() if value is not None}
    exports = {each: render.query(EXPORT, format=each, **asked) for each in ("csv", "jsonl")}
    return AuditPage([_row(each) for each in found.items], filters, found.next, exports)


def _query(filters: AuditFilters) -> AuditQuery:
    until = _day(filters.until, "until")
    return AuditQuery(
        actor=filters.actor or None,
        action=filters.action or None,
        target=filters.target or None,
        path=filters.path.strip("/") or None,
        since=_day(filters.since, "from"),
        until=None if until is None else until + timedelta(days=1),
        text=filters.text or None,
    )


def _day(typed: str, name: str) -> datetime | None:
    """Return the beginning of a day, in UTC."""
    if not typed:
        return None
    try:
        return forms.day(typed)
    except ValueError:
        raise Invalid(f"{name}: {typed[:20]!r} is not a day: write it like 2026-11-30") from None


def _row(entry: Entry) -> EntryRow:
    target_id = entry.target_id.partition(".")[0] if entry.target_kind == "attempt" else entry.target_id
    kind = "job" if entry.target_kind == "attempt" else entry.target_kind
    link = f"/dashboard/{PAGES[kind]}/{target_id}" if kind in PAGES and target_id else ""
    if entry.target_kind == "role" and entry.path is not None and entry.details.get("kind") != "module":
        link = f"{render.group_url(entry.path)}/access" if entry.path else "/dashboard/access"
    actor_link = f"/dashboard/{PAGES[entry.actor_kind]}/{entry.actor_id}" if entry.actor_kind in PAGES else ""
    details = [
        (key, _short(value))
        for key, value in entry.details.items()
        if key not in ("name", "path", "changed") and value is not None and entry.action.endswith(_CHANGES)
    ]
    sentence = words.sentence(audit_words.sentence(msgspec.to_builtins(entry)))
    return EntryRow(entry, actor_link, link, _target(entry), sentence, details)


def _target(entry: Entry) -> str:
    """Return what an entry is about. The name in the details of a place is that of an input or a secret of it."""
    if entry.target_kind in ("group", "module"):
        return f"{entry.target_kind} {_short(entry.path)}" if entry.path else "the organization"
    if entry.target_kind == "job" and (number := entry.details.get("job")):
        return f"job #{number}"
    name = entry.details.get("name") or entry.path or entry.target_id
    return f"{entry.target_kind.replace('_', ' ')} {_short(name)}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_DETAIL_CHARACTERS else f"{text[:MAX_DETAIL_CHARACTERS]}…"


@get("/")
async def audit_page(
    request: DashboardCall,
    actor: FromQuery[str] = "",
    action: FromQuery[str] = "",
    path: FromQuery[str] = "",
    target: FromQuery[str] = "",
    text: FromQuery[str] = "",
    since: FromQuery[str] = "",
    until: FromQuery[str] = "",
    after: FromQuery[str | None] = None,
) -> Response[Any]:
    typed = (each.strip() for each in (actor, action, path, target, text, since, until))
    filters = AuditFilters(*typed)
    found = await request.read(read_page, filters, after)
    return await render.page(request, "access/audit/audit", page=found, after=after)
