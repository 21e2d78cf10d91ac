"""Reads the schedules of a list, each with the path of its group or module."""

from typing import LiteralString

import msgspec

from terracrew.api.schedules import Schedule
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.schedules.store import SCHEDULES
from terracrew.server.tree.inputs.model import InputPlace

_PLACED: LiteralString = f"""{SCHEDULES.columns}, coalesce(modules.path, groups.path) AS path FROM schedules
LEFT JOIN modules ON modules.id = schedules.module_id LEFT JOIN groups ON groups.id = schedules.group_id"""
_OF_ORGANIZATION: LiteralString = """ WHERE schedules.organization_id = :organization_id
    AND coalesce(modules.organization_id, groups.organization_id) = schedules.organization_id"""
_SEEN: LiteralString = """ AND (schedules.group_id IN (SELECT id FROM seen_groups)
    OR schedules.module_id IN (SELECT id FROM seen_modules))"""
_NEXT: LiteralString = """ AND schedules.next_at > :now AND schedules.next_at <= :until
    ORDER BY schedules.next_at, schedules.id LIMIT :count"""
_PAGE: LiteralString = " AND schedules.id > :after ORDER BY schedules.id LIMIT :count"


class PlacedSchedule(msgspec.Struct, frozen=True):
    schedule: Schedule
    path: str
    """The path of its group or module."""

    @property
    def id(self) -> str:
        return self.schedule.id


async def placed(tx: Tx, schedule_id: str) -> PlacedSchedule | None:
    row = await tx.one(f"SELECT {_PLACED} WHERE schedules.id = :id", id=schedule_id)
    return None if row is None else _placed(row)


async def page(tx: Tx, organization_id: str, seen: Visible, after: str, count: int) -> list[PlacedSchedule]:
    """Return schedules of an organization at places that the reader may see."""
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        sql: LiteralString = f"SELECT {_PLACED}{_OF_ORGANIZATION}{_PAGE}"
        rows = await tx.all(sql, organization_id=organization_id, after=after, count=count)
    else:
        rows = await tx.all(
            visibility.SEEN_MODULES + f" SELECT {_PLACED}{_OF_ORGANIZATION}{_SEEN}{_PAGE}",
            organization_id=organization_id,
            after=after,
            count=count,
            **visibility.params(seen),
        )
    return [_placed(row) for row in rows]


async def next_starts(tx: Tx, organization_id: str, seen: Visible, until: float, count: int) -> list[PlacedSchedule]:
    """Return the schedules at places that the reader may see that start next, before a time."""
    if seen.is_nothing:
        return []
    given: dict[str, Param] = {"organization_id": organization_id, "now": tx.now, "until": until, "count": count}
    if seen.is_everything(organization_id):
        rows = await tx.all(f"SELECT {_PLACED}{_OF_ORGANIZATION}{_NEXT}", **given)
    else:
        sql: LiteralString = visibility.SEEN_MODULES + f" SELECT {_PLACED}{_OF_ORGANIZATION}{_SEEN}{_NEXT}"
        rows = await tx.all(sql, **given, **visibility.params(seen))
    return [_placed(row) for row in rows]


async def at(tx: Tx, place: InputPlace) -> list[PlacedSchedule]:
    """Return the schedules of a group or module itself, by name."""
    column: LiteralString = "module_id" if place.kind == "module" else "group_id"
    rows = await tx.all(f"SELECT {_PLACED} WHERE schedules.{column} = :id ORDER BY schedules.name", id=place.id)
    return [_placed(row) for row in rows]


def _placed(row: Row) -> PlacedSchedule:
    return PlacedSchedule(row_to(Schedule, row), row["path"] or "")
