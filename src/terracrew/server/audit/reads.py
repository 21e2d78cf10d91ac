"""Reads entries of the audit log by filters. Each filter has an index, or is checked for a bounded number of entries."""

from typing import LiteralString

import msgspec

from terracrew.api.audit import Entry
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import rows_to

OLDEST_ID, NEWEST_ID = "aud_", "aud_zzzz"
"""They sort before and after the ids of all entries."""
MAX_SCANNED_ENTRIES = 5_000
"""How many entries one page looks at, if not every condition has an index."""
MAX_MILLISECONDS = (1 << 48) - 1
"""The latest time that an id can have."""
CLOCK_DIFFERENCE_SECONDS = 3600.0
"""How much the clock that made an id may differ from the database's clock."""


class EntryFilter(msgspec.Struct, frozen=True):
    """Which entries to read; None stands for all of them."""

    organization_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    action: str | None = None
    """An action (`job.approve`), or the first part of its name (`job`)."""
    target_id: str | None = None
    path: str | None = None
    """The path of a group with everything below it, or of a module."""
    is_module: bool = False
    """Whether the path is that of a module, below which there is nothing."""
    since: float | None = None
    until: float | None = None
    text: str | None = None
    """A part of the action, the name of the actor, the target, the address or the details, in any case."""


class EntryPage(msgspec.Struct, frozen=True):
    entries: list[Entry]
    last_id: str | None
    """The id at which the next page starts; None if there are no further entries."""


class _Conditions(msgspec.Struct):
    """What an index serves, and what is checked for each entry that it returns."""

    index: LiteralString
    index_params: dict[str, Param]
    rest: LiteralString
    rest_params: dict[str, Param]


_INDEXED: tuple[tuple[str, LiteralString], ...] = (
    ("target_id", "target_id = :target_id"),
    ("path", "path = :path AND path IS NOT NULL"),
    ("actor_id", "actor_id = :actor_id"),
    ("actor_name", "actor_name = :actor_name"),
    ("action", "action = :action"),
    ("stack", "stack = :stack AND stack IS NOT NULL"),
)
"""Conditions that an index serves, the most selective one first. Except for the first, its index begins with the organization."""
_OF_ORGANIZATION: LiteralString = "organization_id = :organization_id"
_OTHERS: dict[str, LiteralString] = {
    "below": "(path = :group_path OR substr(path, 1, CAST(:below_length AS integer)) = :below)",
    "family": "substr(action, 1, CAST(:family_length AS integer)) = :family",
    "since": "created_at >= CAST(:since AS double precision)",
    "until": "created_at < CAST(:until AS double precision)",
    "text": """lower(action || ' ' || actor_name || ' ' || target_id || ' ' || coalesce(address, '') || ' ' || details)
        LIKE :text ESCAPE '!'""",
}
_ORDERS: dict[bool, LiteralString] = {True: " ORDER BY id", False: " ORDER BY id DESC"}
"""The order by whether the oldest entries come first."""


async def page(
    tx: Tx,
    wanted: EntryFilter,
    after: str,
    limit: int,
    *,
    is_oldest_first: bool = False,
    scanned: int = MAX_SCANNED_ENTRIES,
) -> EntryPage:
    """Return up to `limit` entries after the id `after`, the newest or the oldest ones first. At most `scanned` are looked at.

    The page may have fewer entries although there are more: `last_id` says where to continue.
    """
    found, order = _conditions(wanted), _ORDERS[is_oldest_first]
    first, last = _id_bounds(wanted)
    bounds: dict[str, Param] = {"first": max(after, first), "last": last}
    if not is_oldest_first:
        bounds = {"first": first, "last": min(after or last, last)}
    within: LiteralString = f"FROM audit WHERE {found.index} AND id > :first AND id < :last{order}"
    given = found.index_params | bounds
    if not found.rest:
        rows = rows_to(Entry, await tx.all(f"SELECT * {within} LIMIT :limit", **given, limit=limit + 1))
        return EntryPage(rows[:limit], rows[limit - 1].id if len(rows) > limit else None)
    sql: LiteralString = (
        f"SELECT * FROM (SELECT * {within} LIMIT :scan) AS scanned WHERE {found.rest}{order} LIMIT :limit"
    )
    more: dict[str, Param] = {"scan": scanned, "limit": limit + 1}
    rows = rows_to(Entry, await tx.all(sql, **given, **found.rest_params, **more))
    if len(rows) > limit:
        return EntryPage(rows[:limit], rows[limit - 1].id)
    end = await tx.one(f"SELECT id {within} LIMIT 1 OFFSET :scan", **given, scan=scanned - 1)
    return EntryPage(rows, end["id"] if end else None)


def _conditions(wanted: EntryFilter) -> _Conditions:
    exact, others = _exact(wanted), _others(wanted)
    in_index: list[LiteralString] = ["true"]
    index_params: dict[str, Param] = {}
    if wanted.organization_id is not None:
        in_index.append(_OF_ORGANIZATION)
        index_params["organization_id"] = wanted.organization_id
    rest: list[LiteralString] = []
    rest_params: dict[str, Param] = {}
    has_index = False
    for name, condition in _INDEXED:
        if name not in exact:
            continue
        if not has_index and (name == "target_id" or wanted.organization_id is not None):
            has_index = True
            in_index.append(condition)
            index_params[name] = exact[name]
        else:
            rest.append(condition)
            rest_params[name] = exact[name]
    for name, params in others.items():
        rest.append(_OTHERS[name])
        rest_params |= params
    return _Conditions(" AND ".join(in_index), index_params, " AND ".join(rest), rest_params)


def _exact(wanted: EntryFilter) -> dict[str, str]:
    """Return the columns that must have one value."""
    path = wanted.path or ""
    given = {
        "target_id": wanted.target_id,
        "path": path if wanted.is_module else None,
        "actor_id": wanted.actor_id,
        "actor_name": wanted.actor_name,
        "action": wanted.action if wanted.action and "." in wanted.action else None,
        "stack": path.partition("/")[0] or None if not wanted.is_module else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _others(wanted: EntryFilter) -> dict[str, dict[str, Param]]:
    """Return the conditions that no index serves, each with its parameters."""
    found: dict[str, dict[str, Param]] = {}
    if wanted.path and "/" in wanted.path and not wanted.is_module:
        below = f"{wanted.path}/"
        found["below"] = {"group_path": wanted.path, "below": below, "below_length": len(below)}
    if wanted.action and "." not in wanted.action:
        family = f"{wanted.action}."
        found["family"] = {"family": family, "family_length": len(family)}
    if wanted.since is not None:
        found["since"] = {"since": wanted.since}
    if wanted.until is not None:
        found["until"] = {"until": wanted.until}
    if wanted.text:
        escaped = "".join(f"!{each}" if each in "!%_" else each for each in wanted.text.lower())
        found["text"] = {"text": f"%{escaped}%"}
    return found


def _id_bounds(wanted: EntryFilter) -> tuple[str, str]:
    """Return ids before and after those of all entries in the range of time, because ids begin with the time."""
    first, last = OLDEST_ID, NEWEST_ID
    if wanted.since is not None:
        first = _id_at(wanted.since - CLOCK_DIFFERENCE_SECONDS)
    if wanted.until is not None:
        last = _id_at(wanted.until + CLOCK_DIFFERENCE_SECONDS)
    return first, last


def _id_at(seconds: float) -> str:
    return f"aud_{min(max(0, int(seconds * 1000)), MAX_MILLISECONDS):012x}"
