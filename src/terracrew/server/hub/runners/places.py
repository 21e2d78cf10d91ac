"""Gives processes the places of their instances, many in one transaction, because a whole fleet connects after an outage.

Only processes that take nothing over are served here: the place is new, free, or their own, and nobody has to be asked, warned or
told about it. All others get no place here; `arrival` decides about each of them in a transaction of its own.
"""

from collections.abc import Iterator, Sequence

from terracrew.server.connections import reads
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.hub.runners import instances, takeover_audit
from terracrew.server.hub.runners.context import Arriving, Placed, Places
from terracrew.server.hub.runners.takeover_audit import FormerInstance
from terracrew.server.principals import authorize

MAX_GROUP_HELLOS = 20
"""SQLite takes up to 5 ms for so many, for which the event loop waits."""


def places(db: Database, server_id: str) -> Places:
    """Return the function that gives a process its place, or None if that must be decided for it alone."""

    async def work(tx: Tx, arriving: list[Arriving]) -> Sequence[Placed | None]:
        return await take(tx, server_id, arriving)

    return db.grouped(work, MAX_GROUP_HELLOS)


async def take(tx: Tx, server_id: str, arriving: Sequence[Arriving]) -> list[Placed | None]:
    """Give these processes their places. The result of a process that gets none here is None, and nothing was written for it."""
    owners = await _owners(tx, arriving)
    names = [(owner.id, arriving[index].hello.instance) for index, owner in owners.items()]
    found = {
        (seat.runner_id, seat.name): seat for seat in rows_to(FormerInstance, await reads.instances_named(tx, names))
    }
    single = [owner.id for owner in owners.values() if not owner.allow_multiple_instances]
    crowded = await reads.runners_with_another_instance(tx, [name for name in names if name[0] in single])
    free = {
        index: found.get((owner.id, arriving[index].hello.instance))
        for index, owner in owners.items()
        if owner.id not in crowded
    }
    free = {
        index: seat for index, seat in free.items() if seat is None or takeover_audit.is_free(seat, *arriving[index])
    }
    placed = await instances.connect(
        tx, server_id, [(arriving[index], owners[index], seat) for index, seat in free.items()]
    )
    rows = dict(zip(free, placed, strict=True))
    return [(owners[index], row) if (row := rows.get(index)) is not None else None for index in range(len(arriving))]


async def _owners(tx: Tx, arriving: Sequence[Arriving]) -> dict[int, ServedRunner]:
    """Return the runners that these processes may serve, with the rows of those for one process locked.

    Of two processes that want the same place, the first one counts: what the second one may have depends on it.
    """
    runners = await reads.runners(tx, [each.hello.runner_id for each in arriving])
    wanted = dict(_allowed(arriving, runners))
    single = [owner.id for owner in wanted.values() if not owner.allow_multiple_instances]
    locked = await reads.locked_runners(tx, single)
    fresh = {key: each for key, each in runners.items() if key not in single} | locked
    owners: dict[int, ServedRunner] = {}
    taken: set[tuple[str, str]] = set()
    for index, owner in _allowed(arriving, fresh):
        place = owner.id, arriving[index].hello.instance if owner.allow_multiple_instances else ""
        if index in wanted and place not in taken:
            taken.add(place)
            owners[index] = owner
    return owners


def _allowed(arriving: Sequence[Arriving], runners: dict[str, ServedRunner]) -> Iterator[tuple[int, ServedRunner]]:
    for index, (who, hello) in enumerate(arriving):
        owner = runners.get(hello.runner_id)
        if owner is not None and authorize.may_serve_runner(who, owner):
            yield index, owner
