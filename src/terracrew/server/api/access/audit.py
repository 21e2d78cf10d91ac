"""The audit log over HTTP: pages of it, and an export of any size."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from litestar import get
from litestar.di import NamedDependency, Provide
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream

from terracrew.api.audit import AuditQuery, Entry
from terracrew.api.pages import Page
from terracrew.server.api.context import AccessCall
from terracrew.server.audit import service
from terracrew.server.audit.listing import check, listing, oldest_first
from terracrew.server.db.seam import Database, Tx
from terracrew.server.paging import After, Limit
from terracrew.server.principals.model import Principal

EXPORT_PAGE_ROWS = 1000
CLOCK_PRECISION_SECONDS = 0.001
"""Times of entries are rounded, so an entry that was made at the time of the request may seem to be later."""
COLUMNS = Entry.__struct_fields__
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet takes a cell that begins with one of these for a formula; the last four are wide forms of the first four."""

Actor = Annotated[str | None, QueryParameter(description="The name or id of who made the change")]
Action = Annotated[str | None, QueryParameter(description="An action (`job.approve`), or all of a kind (`job`)")]
Target = Annotated[str | None, QueryParameter(description="The id of what was changed")]
PathPrefix = Annotated[str | None, QueryParameter(description="A group, with everything below it, or a module")]
Since = Annotated[datetime | None, QueryParameter(description="Only entries from this time on")]
Until = Annotated[datetime | None, QueryParameter(description="Only entries before this time")]
Text = Annotated[str | None, QueryParameter(description="A part of the action, actor, target, address or details")]


def asked_for(
    actor: Actor = None,
    action: Action = None,
    target: Target = None,
    path: PathPrefix = None,
    since: Since = None,
    until: Until = None,
    text: Text = None,
) -> AuditQuery:
    """Return the filters of a request, which the list and the export share."""
    return AuditQuery(actor, action, target, path, since, until, text)


_WANTED = {"wanted": Provide(asked_for, sync_to_thread=False)}


@get("/audit", summary="List changes, newest first", dependencies=_WANTED)
async def list_entries(
    request: AccessCall,
    wanted: NamedDependency[AuditQuery],
    after: After = None,
    limit: Limit = 50,
) -> Page[Entry]:
    """List the entries of the organization, the newest first. With `path`, those about a group or module; its owners may
    read these. A page may have fewer entries than asked for, although there are more: only the last one has no `next`."""
    return await request.read_in_background(listing, wanted, after, limit)


@get("/audit/export", summary="Export changes, oldest first", dependencies=_WANTED)
async def export(
    request: AccessCall,
    wanted: NamedDependency[AuditQuery],
    format: FromQuery[Literal["jsonl", "csv"]] = "jsonl",  # noqa: A002 - the name of the query parameter
) -> Stream:
    """Stream all entries that match, the oldest first, one on each line: as JSON, or as CSV with a line of headings.

    The export ends with the newest entry at the time of the request, and is itself an entry of the audit log.
    """
    who, db = request.user, request.context.db

    async def begin(tx: Tx) -> float:
        await check(tx, who, wanted)
        asked = {name: value for name, value in msgspec.to_builtins(wanted).items() if value is not None}
        await service.record(tx, who, "audit.export", "audit", who.organization_id or "", {"format": format} | asked)
        return tx.now + CLOCK_PRECISION_SECONDS

    now = await db.write(begin)
    is_csv = format == "csv"
    pieces = exported(db, who, wanted, now, is_csv=is_csv)
    headers = {"Content-Disposition": f'attachment; filename="audit.{format}"', "Cache-Control": "no-store"}
    media_type = "text/csv; charset=utf-8" if is_csv else "application/x-ndjson"
    return Stream(pieces, media_type=media_type, headers=headers)


async def exported(
    db: Database, who: Principal, query: AuditQuery, now: float, *, is_csv: bool
) -> AsyncIterator[bytes]:
    """Yield the entries page by page, so that an export of any size needs the memory of one page."""
    after: str | None = ""
    if is_csv:
        yield _csv([COLUMNS])
    while after is not None:
        start_id = after
        page = await db.read_in_background(
            lambda tx, start_id=start_id: oldest_first(tx, who, query, start_id, EXPORT_PAGE_ROWS)
        )
        entries = [entry for entry in page.entries if entry.created_at.timestamp() <= now]
        if entries:
            yield (
                _csv([_cells(entry) for entry in entries])
                if is_csv
                else b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
            )
        after = page.last_id if len(entries) == len(page.entries) else None


def _cells(entry: Entry) -> list[str]:
    found: list[str] = []
    for value in msgspec.to_builtins(entry).values():
        text = "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
        found.append(f"'{text}" if text.startswith(_FORMULA_STARTS) else text)
    return found


def _csv(rows: Sequence[Sequence[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode()
